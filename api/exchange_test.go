package api_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api"
	"github.com/berth-backup/berth/db/dbtest"
)

// document is openapi.yaml as the tests read it, apart from how the server does.
var document = sync.OnceValue(func() *v3.Document {
	parsed, err := libopenapi.NewDocument(berth.OpenAPI)
	if err != nil {
		panic(err)
	}
	model, err := parsed.BuildV3Model()
	if err != nil {
		panic(err)
	}
	return &model.Model
})

// judge knows what may be sent and answered, and refuses what is not declared.
var judge = sync.OnceValue(func() validator.Validator {
	return validator.NewValidatorFromV3Model(document(),
		config.WithStrictMode(), config.WithFormatAssertions(),
		// Maps whose keys are free; strict mode takes their keys for undeclared fields.
		config.WithStrictIgnorePaths("$.body**.labels**", "$.body**.annotations**", "$.body**.matchLabels**", "$.body**.orderedResources**"),
		config.WithCustomFormat("go-duration", func(value any) error {
			text, ok := value.(string)
			if !ok {
				return nil
			}
			_, err := time.ParseDuration(text)
			return err
		}))
})

// judging lets one exchange be judged at a time: strict mode writes to the
// document that all share.
var judging sync.Mutex

// observed are the pairs of operation and status that some test has seen, such
// as "GET /queue 404".
var observed sync.Map

// recorder checks every exchange against openapi.yaml: each answer, and each
// request that was accepted.
type recorder struct {
	t         *testing.T
	transport http.RoundTripper
}

func (c recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	c.t.Helper()
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	answer, err := c.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	received, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	_ = answer.Body.Close()
	answer.Body = io.NopCloser(bytes.NewReader(received))
	c.check(r, sent, answer, received)
	return answer, nil
}

func (c recorder) check(r *http.Request, sent []byte, answer *http.Response, received []byte) {
	c.t.Helper()
	if answer.Header.Get("X-Request-Id") == "" || answer.Header.Get("Cache-Control") != "no-store" {
		c.t.Errorf("%s %s: answer lacks X-Request-Id or Cache-Control: no-store: %v", r.Method, r.URL, answer.Header)
	}
	if answer.StatusCode >= 400 && answer.Header.Get("Content-Type") != "application/problem+json" {
		c.t.Errorf("%s %s: %d is no problem but %q", r.Method, r.URL, answer.StatusCode, answer.Header.Get("Content-Type"))
	}
	operation, declared := operationOf(r)
	if !declared {
		return
	}
	judging.Lock()
	defer judging.Unlock()
	observed.Store(fmt.Sprintf("%s %d", operation, answer.StatusCode), true)

	request := r.Clone(r.Context())
	request.Body = io.NopCloser(bytes.NewReader(sent))
	if answer.StatusCode < 400 {
		switch {
		case len(sent) == 0:
			request.Header.Del("Content-Type")
		case request.Header.Get("Content-Type") == "":
			request.Header.Set("Content-Type", "application/json")
		}
		if ok, errs := judge().ValidateHttpRequestSync(request); !ok {
			for _, e := range errs {
				c.t.Errorf("%s %s was accepted though openapi.yaml forbids it: %v", r.Method, r.URL, e)
			}
		}
	}
	copied := *answer
	copied.Body = io.NopCloser(bytes.NewReader(received))
	if ok, errs := judge().ValidateHttpResponse(request, &copied); !ok {
		for _, e := range errs {
			c.t.Errorf("%s %s: the answer %d is not as openapi.yaml says: %v\n%s", r.Method, r.URL, answer.StatusCode, e, received)
		}
	}
}

// operationOf finds the declared operation of a request.
func operationOf(r *http.Request) (name string, declared bool) {
	for path, item := range document().Paths.PathItems.FromOldest() {
		template := strings.Split(path, "/")
		segments := strings.Split(r.URL.Path, "/")
		if !slices.EqualFunc(template, segments, func(t, s string) bool { return t == s || s != "" && strings.HasPrefix(t, "{") }) {
			continue
		}
		_, declared := item.GetOperations().Get(strings.ToLower(r.Method))
		return r.Method + " " + path, declared
	}
	return "", false
}

// TestMain fails the suite if openapi.yaml declares an answer that no test has
// seen: such a promise is untested.
func TestMain(m *testing.M) {
	flag.Parse()
	code := dbtest.RunTests(m)
	if code == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" {
		for _, pair := range unobserved() {
			fmt.Fprintf(os.Stderr, "openapi.yaml declares %s, but no test has seen it\n", pair)
			code = 1
		}
	}
	os.Exit(code)
}

func unobserved() []string {
	var missing []string
	for path, item := range document().Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			for status := range operation.Responses.Codes.KeysFromOldest() {
				pair := strings.ToUpper(method) + " " + path + " " + status
				if _, seen := observed.Load(pair); !seen {
					missing = append(missing, pair)
				}
			}
		}
	}
	return missing
}

// serve runs the API on store and gives its URL and a client that checks every
// exchange.
func serve(t *testing.T, store api.Store) (url string, client *http.Client) {
	t.Helper()
	return serveLogged(t, store, io.Discard)
}

// serveLogged is serve with the log as JSON in log.
func serveLogged(t *testing.T, store api.Store, log io.Writer) (url string, client *http.Client) {
	t.Helper()
	handler := api.New(store, api.Options{Logger: slog.New(slog.NewJSONHandler(log, nil))})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, &http.Client{Transport: recorder{t: t, transport: server.Client().Transport}}
}
