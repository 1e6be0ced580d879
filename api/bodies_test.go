package api_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
)

// operation is one that takes a body.
type operation struct{ method, path string }

var (
	createBackup   = operation{"POST", "/backups"}
	dryRun         = operation{"POST", "/backups?dryRun=true"}
	editBackup     = operation{"PATCH", "/backups/" + queued.ID.String()}
	changeSettings = operation{"PATCH", "/queue/settings"}
	pauseQueue     = operation{"POST", "/queue/pause"}
	resumeQueue    = operation{"POST", "/queue/resume"}
	simulateQueue  = operation{"POST", "/queue/simulate"}
)

// goodBodies has for each operation that takes a body one that it takes.
var goodBodies = map[operation]string{
	createBackup:   `{"name":"a","spec":{}}`,
	dryRun:         `{"name":"a","spec":{}}`,
	editBackup:     `{"priority":60}`,
	changeSettings: `{"concurrentBackups":4}`,
	pauseQueue:     `{"reason":"upgrade"}`,
	resumeQueue:    `{"by":"ops"}`,
	simulateQueue:  `{"add":[{"name":"a","spec":{}}]}`,
}

func (o operation) isPatch() bool { return o.method == http.MethodPatch }

// success is the status of an answer that is no problem.
func (o operation) success() int {
	if o == createBackup {
		return http.StatusCreated
	}
	return http.StatusOK
}

func (o operation) send(t *testing.T, client *http.Client, url, body string, header ...string) (*http.Response, []byte) {
	t.Helper()
	return send(t, client, o.method, url+o.path, body, append([]string{"Content-Type", "application/json", "If-Match", "*"}, header...)...)
}

// What cannot be read is refused in the same way whoever is asked.
func TestMalformedBodies(t *testing.T) {
	t.Parallel()
	type fields = map[string]string
	for _, operation := range slices.Collect(maps.Keys(goodBodies)) {
		for _, test := range []struct {
			name, body string
			status     int
			errors     fields
		}{
			{"blanks", " \n", 400, fields{}},
			{"not JSON", `{"a":`, 400, fields{}},
			{"a word", `now`, 400, fields{}},
			{"something behind", `{} {}`, 400, fields{}},
			{"not UTF-8", "{\"by\":\"\xff\"}", 400, fields{}},
			{"too deep", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), 400, fields{}},
			{"a key twice", `{"cluster":"a","cluster":"b"}`, 400, fields{"/cluster": "duplicate-field"}},
			{"U+0000", `{"by":"\u0000"}`, 400, fields{"/by": "invalid"}},
			{"null", `null`, 422, fields{"": "type"}},
			{"an array", `[]`, 422, fields{"": "type"}},
			{"a string", `"now"`, 422, fields{"": "type"}},
		} {
			t.Run(operation.method+" "+operation.path+": "+test.name, func(t *testing.T) {
				t.Parallel()
				url, client := serve(t, store{}) // a store that panics: nothing may reach it
				answer, body := operation.send(t, client, url, test.body)
				if diff := cmp.Diff(test.errors, places(problemOf(t, answer, body))); answer.StatusCode != test.status || diff != "" {
					t.Errorf("got %d, want %d: %s; errors (-want +got):\n%s", answer.StatusCode, test.status, body, diff)
				}
			})
		}
	}
}

func TestFieldsThatCannotBeAccepted(t *testing.T) {
	t.Parallel()
	type fields = map[string]string
	for _, test := range []struct {
		operation operation
		body      string
		errors    fields
	}{
		{createBackup, `{"spec":{},"priority":10081}`, fields{"/priority": "invalid"}},
		{createBackup, `{"spec":{},"priority":-10081}`, fields{"/priority": "invalid"}},
		{createBackup, `{"spec":{},"priority":1e999999999}`, fields{"/priority": "type"}},
		{createBackup, `{"spec":{},"priority":1.5}`, fields{"/priority": "type"}},
		{createBackup, `{"spec":{},"priority":"60"}`, fields{"/priority": "type"}},
		{createBackup, `{"spec":{},"notBefore":"tomorrow","startDeadline":1782900000}`, fields{"/notBefore": "invalid", "/startDeadline": "type"}},
		{createBackup, `{"spec":{},"notBefore":"2026-07-01","startDeadline":"2026-07-01T22:00:00"}`, fields{"/notBefore": "invalid", "/startDeadline": "invalid"}},
		{createBackup, `{"spec":{},"notBefore":"2026-06-30T23:59:60Z","startDeadline":"2026-07-01t22:00:00z"}`, fields{"/notBefore": "invalid", "/startDeadline": "invalid"}},
		{createBackup, `{"spec":{},"notBefore":"2026-07-01T22:00:00,5Z","startDeadline":"2026-07-01T22:00:00+24:00"}`, fields{"/notBefore": "invalid", "/startDeadline": "invalid"}},
		{createBackup, `{"spec":{},"notBefore":"9999-12-31T23:59:59.999999999Z","startDeadline":"9999-12-31T23:59:59-14:00"}`, fields{"/notBefore": "invalid", "/startDeadline": "invalid"}},
		{createBackup, `{"spec":{},"notBefore":"1999-12-31T23:59:59Z","startDeadline":"9001-01-01T00:00:00Z"}`, fields{"/notBefore": "invalid", "/startDeadline": "invalid"}},
		{createBackup, `{"spec":{},"notBefore":"2026-07-01T22:00:00Z","startDeadline":"2026-07-01T22:00:00Z"}`, fields{"/startDeadline": "conflict"}},
		{dryRun, `{"name":"A","priority":10081,"spec":{"tll":"1h"}}`, fields{"/name": "invalid", "/priority": "invalid", "/spec/tll": "unknown-field"}},

		{editBackup, `{"priority":null}`, fields{"/priority": "type"}},
		{editBackup, `{"priority":99999,"notBefore":"soon","labels":{"a":"b"},"ttl":"1h"}`, fields{
			"/priority": "invalid", "/notBefore": "invalid", "/labels": "unknown-field", "/ttl": "unknown-field",
		}},
		{editBackup, `{"notBefore":"2026-07-02T22:00:00Z","startDeadline":"2026-07-01T22:00:00Z","priority":0.5}`, fields{"/startDeadline": "conflict", "/priority": "type"}},
		{editBackup, `{"spec":null}`, fields{"/spec": "unknown-field"}},

		{changeSettings, `{"concurrentBackups":0,"itemBlockWorkerCount":0,"maxQueued":0}`, fields{
			"/concurrentBackups": "invalid", "/itemBlockWorkerCount": "invalid", "/maxQueued": "invalid",
		}},
		{changeSettings, `{"concurrentBackups":-1,"itemBlockWorkerCount":1001,"maxQueued":1000001}`, fields{
			"/concurrentBackups": "invalid", "/itemBlockWorkerCount": "invalid", "/maxQueued": "invalid",
		}},
		{changeSettings, `{"concurrentBackups":10001}`, fields{"/concurrentBackups": "invalid"}},
		{changeSettings, `{"concurrentBackups":null,"itemBlockWorkerCount":"4"}`, fields{"/concurrentBackups": "type", "/itemBlockWorkerCount": "type"}},
		{changeSettings, `{"paused":null,"version":8}`, fields{"/paused": "unknown-field", "/version": "unknown-field"}},

		{pauseQueue, `{"until":"2020-01-01T00:00:00Z","reason":5,"cluster":""}`, fields{"/until": "invalid", "/reason": "type", "/cluster": "invalid"}},
		{pauseQueue, `{"until":"9999-12-31T23:59:59Z"}`, fields{"/until": "invalid"}},
		{pauseQueue, `{"until":"later","who":"ops"}`, fields{"/until": "invalid", "/who": "unknown-field"}},
		{pauseQueue, `{"reason":"` + strings.Repeat("ä", 1001) + `","by":"` + strings.Repeat("x", 254) + `"}`, fields{"/reason": "invalid", "/by": "invalid"}},
		{resumeQueue, `{"by":{},"reason":"done","cluster":7}`, fields{"/by": "type", "/reason": "unknown-field", "/cluster": "type"}},

		{simulateQueue, `{"concurrentBackups":0,"add":{},"cancel":"all","remove":[]}`, fields{
			"/concurrentBackups": "invalid", "/add": "type", "/cancel": "type", "/remove": "unknown-field",
		}},
		{simulateQueue, `{"add":[{"spec":{}},null,{"name":"A"},{"spec":{"ttl":"-1h","tll":1}},5],"cancel":["shop",null,"019a8c1e-7b1d-7c3e-9f52-6a0e4d2b8c11"]}`, fields{
			"/add/1": "type", "/add/2/name": "invalid", "/add/2/spec": "required", "/add/3/spec/ttl": "invalid", "/add/3/spec/tll": "unknown-field", "/add/4": "type",
			"/cancel/0": "invalid", "/cancel/1": "type",
		}},
		{simulateQueue, `{"cluster":"east","add":[{"spec":{}},{"cluster":"east","spec":{}},{"cluster":"west","spec":{}}]}`, fields{"/add/2/cluster": "conflict"}},
		{simulateQueue, `{"add":[` + strings.Repeat(`{"spec":{}},`, 100) + `{"spec":{}}]}`, fields{"/add": "invalid"}},
		{simulateQueue, `{"cancel":[` + strings.Repeat(`"`+missingID+`",`, 1000) + `"` + missingID + `"]}`, fields{"/cancel": "invalid"}},
	} {
		url, client := serve(t, store{}) // a store that panics: nothing may reach it
		answer, body := test.operation.send(t, client, url, test.body)
		problem := problemOf(t, answer, body)
		if diff := cmp.Diff(test.errors, places(problem)); problem.Code != berth.CodeValidationFailed || diff != "" {
			t.Errorf("%s %s %.200s: got %d; errors (-want +got):\n%s%s", test.operation.method, test.operation.path, test.body, answer.StatusCode, diff, body)
		}
	}
}

// Rows complain of the backups of a simulation at their places.
func TestRowsComplainOfWhatASimulationAdds(t *testing.T) {
	t.Parallel()
	noLocation := func(r berth.Request) ([]berth.FieldError, error) {
		if r.Spec.StorageLocation == "" {
			return nil, nil
		}
		return []berth.FieldError{{Pointer: "/spec/storageLocation", Code: "not-found", Detail: "there is none"}}, nil
	}
	url, client := serve(t, store{rows: noLocation})
	answer, body := simulateQueue.send(t, client, url, `{"add":[{"spec":{}},{"name":"A","spec":{"storageLocation":"nowhere"}}]}`)
	want := map[string]string{"/add/1/name": "invalid", "/add/1/spec/storageLocation": "not-found"}
	if diff := cmp.Diff(want, places(problemOf(t, answer, body))); diff != "" {
		t.Errorf("errors (-want +got):\n%s%s", diff, body)
	}
}

func TestBodySize(t *testing.T) {
	t.Parallel()
	url, client := serve(t, working())
	for operation, good := range goodBodies {
		body := func(size int) string { return good + strings.Repeat(" ", size-len(good)) }
		if answer, received := operation.send(t, client, url, body(1<<20)); answer.StatusCode != operation.success() {
			t.Errorf("%s %s, 1 MiB: got %d: %s", operation.method, operation.path, answer.StatusCode, received)
		}
		answer, received := operation.send(t, client, url, body(1<<20+1))
		if problem := problemOf(t, answer, received); problem.Code != berth.CodePayloadTooLarge || answer.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s %s, 1 MiB and a byte: got %d %s, want 413", operation.method, operation.path, answer.StatusCode, received)
		}
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	url, client := serve(t, working())
	const never, patches, always = 0, 1, 2
	for contentType, taken := range map[string]int{
		"":                                  always,
		"application/json":                  always,
		"application/json; charset=utf-8":   always,
		"Application/JSON; charset=UTF-8":   always,
		"application/merge-patch+json":      patches,
		"Application/Merge-Patch+JSON":      patches,
		"application/json-patch+json":       never,
		"application/json; charset=latin1":  never,
		"application/x-www-form-urlencoded": never,
		"application/yaml":                  never,
		"json":                              never,
		"application/json; charset":         never,
	} {
		for operation, good := range goodBodies {
			header := []string{"If-Match", "*"}
			if contentType != "" {
				header = append(header, "Content-Type", contentType)
			}
			want := http.StatusUnsupportedMediaType
			if taken == always || taken == patches && operation.isPatch() {
				want = operation.success()
			}
			answer, body := send(t, client, operation.method, url+operation.path, good, header...)
			if answer.StatusCode != want {
				t.Errorf("%s %s, %q: got %d, want %d: %s", operation.method, operation.path, contentType, answer.StatusCode, want, body)
			}
			if answer.StatusCode == http.StatusUnsupportedMediaType {
				problem := problemOf(t, answer, body)
				if problem.Code != berth.CodeUnsupportedMediaType || !strings.Contains(problem.Detail, "-H 'Content-Type: application/json'") {
					t.Errorf("%q: the problem does not say what to do: %s", contentType, body)
				}
			}
		}
	}
}

// An object of optional fields may be left out.
func TestOptionalBodies(t *testing.T) {
	t.Parallel()
	url, client := serve(t, working())
	for operation, status := range map[operation]int{
		pauseQueue: 200, resumeQueue: 200, simulateQueue: 200, createBackup: 400, editBackup: 400, changeSettings: 400,
	} {
		if answer, body := operation.send(t, client, url, ""); answer.StatusCode != status {
			t.Errorf("%s %s without a body: got %d, want %d: %s", operation.method, operation.path, answer.StatusCode, status, body)
		}
	}
}
