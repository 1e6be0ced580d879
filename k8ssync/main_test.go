package k8ssync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/berth-backup/berth/deploy"
	"github.com/berth-backup/berth/internal/devenv"
)

var (
	backupResource     = schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backups"}
	namespaceResource  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

func TestMain(m *testing.M) {
	// Requests that end with their context are no news here.
	klog.SetLogger(logr.Discard())
	code := devenv.RunTests(m)
	// A connection that is kept for the next request is no leak.
	err := goleak.Find(goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"))
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// cluster is the API server of the tests, with the definition of Backup objects.
func cluster(t *testing.T) (*devenv.Kubernetes, dynamic.Interface) {
	t.Helper()
	k := devenv.TestKubernetes(t)
	client, err := dynamic.NewForConfig(k.Config)
	if err != nil {
		t.Fatal(err)
	}
	definition.Do(func() { errDefinition = installDefinition(t.Context(), client) })
	if errDefinition != nil {
		t.Fatal(errDefinition)
	}
	return k, client
}

var (
	definition    sync.Once
	errDefinition error
)

// installDefinition applies the definition of Backup objects and waits until
// the API server serves them.
func installDefinition(ctx context.Context, client dynamic.Interface) error {
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(deploy.BackupDefinition, &object.Object); err != nil {
		return err
	}
	definitions := client.Resource(definitionResource)
	if _, err := definitions.Create(ctx, object, metav1.CreateOptions{FieldValidation: "Strict"}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return poll(ctx, func() error {
		have, err := definitions.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(have.Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "Established" && c["status"] == "True" {
				_, err := client.Resource(backupResource).List(ctx, metav1.ListOptions{Limit: 1})
				return err
			}
		}
		return errors.New("the definition of Backup objects is not established")
	})
}

// poll calls check until it returns nil or ctx ends.
func poll(ctx context.Context, check func() error) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("in time: %w", err)
		case <-ticker.C:
		}
	}
}

// eventually fails the test unless check returns nil within 30 s.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := poll(ctx, check); err != nil {
		t.Fatal(err)
	}
}

// start runs a loop until the test ends or the returned function is called.
func start(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the loop ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// through is config whose requests pass a round tripper that may answer itself:
// a nil response lets the request pass.
func through(config *rest.Config, intercept func(*http.Request) (*http.Response, error)) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if response, err := intercept(request); response != nil || err != nil {
				return response, err
			}
			return next.RoundTrip(request)
		})
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is a response of the API server's kind.
func answer(request *http.Request, code int, reason metav1.StatusReason) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":%q,"code":%d}`, reason, code)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: request, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// logged collects what a loop logs.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// says returns an error unless part has been logged.
func (l *logged) says(part string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.Contains(l.text.String(), part) {
		return fmt.Errorf("not logged: %q in\n%s", part, l.text.String())
	}
	return nil
}

// quiet is for tests whose failures are on purpose.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
