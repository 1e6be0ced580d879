package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
)

// everyOperation is one request for each operation that asks the store.
var everyOperation = []struct{ method, target, body string }{
	{"POST", "/backups", `{"name":"a","spec":{}}`},
	{"GET", "/backups", ""},
	{"GET", "/backups/" + missingID, ""},
	{"GET", "/queue", ""},
	{"POST", "/backups?dryRun=true", `{"spec":{}}`},
	{"PATCH", "/backups/" + missingID, `{"priority":1}`},
	{"GET", "/backups/" + missingID + "/explain", ""},
	{"GET", "/backups/" + missingID + "/logs", ""},
	{"GET", "/queue/settings", ""},
	{"PATCH", "/queue/settings", `{}`},
	{"POST", "/queue/pause", ""},
	{"POST", "/queue/resume", ""},
	{"POST", "/queue/simulate", ""},
}

func TestNotReady(t *testing.T) {
	t.Parallel()
	away := fmt.Errorf("connect to 10.0.0.7: %w", berth.Errorf(berth.CodeNotReady, "The database does not answer."))
	var log bytes.Buffer
	url, client := serveLogged(t, failing(away), &log)
	for _, operation := range append(everyOperation, struct{ method, target, body string }{"GET", "/readyz", ""}) {
		answer, body := send(t, client, operation.method, url+operation.target, operation.body, "If-Match", "*")
		problem := problemOf(t, answer, body)
		if answer.StatusCode != 503 || problem.Code != berth.CodeNotReady || !problem.Retryable || answer.Header.Get("Retry-After") != "2" {
			t.Errorf("%s %s: got %d, Retry-After %q: %s", operation.method, operation.target, answer.StatusCode, answer.Header.Get("Retry-After"), body)
		}
		if strings.Contains(string(body), "10.0.0.7") {
			t.Errorf("%s %s tells of the inside: %s", operation.method, operation.target, body)
		}
	}
	if lines := strings.Count(log.String(), "10.0.0.7"); lines != len(everyOperation)+1 {
		t.Errorf("the cause stands %d times in the log:\n%s", lines, &log)
	}
}

func TestReadyzFailsOnAnyError(t *testing.T) {
	t.Parallel()
	url, client := serve(t, store{ready: func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the store is asked without a time limit")
		}
		return errors.New("secret")
	}})
	answer, body := send(t, client, "GET", url+"/readyz", "")
	if problem := problemOf(t, answer, body); problem.Code != berth.CodeNotReady || strings.Contains(string(body), "secret") {
		t.Errorf("got %d %s", answer.StatusCode, body)
	}
}

func TestInternalErrorsAreHiddenAndLoggedOnce(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]store{
		"an error":               failing(errors.New("secret of the inside")),
		"a panic":                {},
		"a code that is not one": failing(&berth.Error{Code: "secret", Detail: "secret of the inside"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, operation := range everyOperation {
				var log bytes.Buffer
				url, client := serveLogged(t, broken, &log)
				answer, body := send(t, client, operation.method, url+operation.target, operation.body, "X-Request-Id", "find.me_1-2", "If-Match", "*")
				problem := problemOf(t, answer, body)
				if answer.StatusCode != 500 || problem.Code != berth.CodeInternal || problem.RequestID != "find.me_1-2" {
					t.Errorf("%s %s: got %d %s", operation.method, operation.target, answer.StatusCode, body)
				}
				if strings.Contains(string(body), "secret") || strings.Contains(string(body), "nil pointer") {
					t.Errorf("%s %s tells of the inside: %s", operation.method, operation.target, body)
				}
				var line struct{ Level, RequestID, Error string }
				if err := json.Unmarshal(log.Bytes(), &line); err != nil {
					t.Fatalf("the log is not one line: %v\n%s", err, &log)
				}
				if line.Level != "ERROR" || line.RequestID != "find.me_1-2" || line.Error == "" {
					t.Errorf("the log lacks the error or its request: %s", &log)
				}
			}
		})
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	url, client := serve(t, working())
	for given, kept := range map[string]bool{
		"deploy-4711": true, "A.b_c-9": true, strings.Repeat("x", 128): true,
		"": false, "a b": false, "a/b": false, "ä": false, strings.Repeat("x", 129): false,
	} {
		answer, _ := send(t, client, http.MethodGet, url+"/livez", "", "X-Request-Id", given)
		if got := answer.Header.Get("X-Request-Id"); (got == given) != kept || got == "" {
			t.Errorf("%q became %q", given, got)
		}
	}
}

func TestHeadAnswersLikeGet(t *testing.T) {
	t.Parallel()
	url, client := serve(t, working())
	for _, target := range []string{
		"/backups", "/backups/" + queued.ID.String(), "/queue", "/livez", "/readyz", "/openapi.yaml",
		"/backups?limit=0", "/backups?x=1", "/backups/" + missingID, "/backups/none", "/nothing",
	} {
		get, _ := send(t, client, http.MethodGet, url+target, "")
		head, body := send(t, client, http.MethodHead, url+target, "")
		type shape struct {
			status      int
			contentType string
		}
		if diff := cmp.Diff(shape{get.StatusCode, get.Header.Get("Content-Type")}, shape{head.StatusCode, head.Header.Get("Content-Type")}, cmp.AllowUnexported(shape{})); diff != "" || len(body) > 0 {
			t.Errorf("HEAD %s (-GET +HEAD):\n%s%s", target, diff, body)
		}
	}
}
