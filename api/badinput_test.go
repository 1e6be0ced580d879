package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api"
)

const missingID = "019a8c1e-0000-7000-8000-000000000000"

// send sends one request; a header without a value is not sent.
func send(t *testing.T, client *http.Client, method, url, body string, header ...string) (*http.Response, []byte) {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, reader)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	received, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, received
}

func post(t *testing.T, client *http.Client, url, body string) (*http.Response, []byte) {
	t.Helper()
	return send(t, client, http.MethodPost, url+"/backups", body, "Content-Type", "application/json")
}

func problemOf(t *testing.T, answer *http.Response, body []byte) api.Problem {
	t.Helper()
	var problem api.Problem
	if err := json.Unmarshal(body, &problem); err != nil {
		t.Fatalf("%d is no problem: %v\n%s", answer.StatusCode, err, body)
	}
	if problem.Status != answer.StatusCode || !strings.HasSuffix(problem.Type, "/"+string(problem.Code)) ||
		problem.RequestID != answer.Header.Get("X-Request-Id") || problem.Detail == "" {
		t.Errorf("problem does not fit its answer %d: %s", answer.StatusCode, body)
	}
	return problem
}

// places gives the code of each error by its pointer or parameter.
func places(problem api.Problem) map[string]string {
	found := map[string]string{}
	for _, e := range problem.Errors {
		where := ""
		if e.Pointer != nil {
			where = *e.Pointer
		}
		if e.Parameter != nil {
			where = *e.Parameter
		}
		if _, twice := found[where]; twice {
			found[where] = "TWICE"
			continue
		}
		found[where] = e.Code
	}
	return found
}

func TestBadBodies(t *testing.T) {
	t.Parallel()
	type fields = map[string]string
	const malformed, invalid = berth.CodeMalformedRequest, berth.CodeValidationFailed
	spec := func(members string) string { return `{"spec":{` + members + `}}` }
	for _, test := range []struct {
		name, body string
		status     int
		code       berth.Code
		errors     fields
	}{
		{"no body", ``, 400, malformed, fields{}},
		{"blanks", " \n", 400, malformed, fields{}},
		{"not JSON", `{"spec":`, 400, malformed, fields{}},
		{"a word", `spec`, 400, malformed, fields{}},
		{"YAML", "spec:\n  includedNamespaces: [a]\n", 400, malformed, fields{}},
		{"a comma too many", `{"spec":{},}`, 400, malformed, fields{}},
		{"something behind", `{"spec":{}} {}`, 400, malformed, fields{}},
		{"a brace behind", `{"spec":{}}}`, 400, malformed, fields{}},
		{"not UTF-8", "{\"name\":\"\xff\",\"spec\":{}}", 400, malformed, fields{}},
		{"too deep", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), 400, malformed, fields{}},
		{"a key twice", `{"name":"a","spec":{},"name":"b"}`, 400, malformed, fields{"/name": "duplicate-field"}},
		{"a key twice inside", spec(`"labelSelector":{"matchLabels":{"a/b":"x","a\/b":"y"}}`), 400, malformed, fields{"/spec/labelSelector/matchLabels/a~1b": "duplicate-field"}},
		{"U+0000", `{"annotations":{"a":"\u0000"},"spec":{}}`, 400, malformed, fields{"/annotations/a": "invalid"}},

		{"null", `null`, 422, invalid, fields{"": "type"}},
		{"an array", `[{"spec":{}}]`, 422, invalid, fields{"": "type"}},
		{"a string", `"spec"`, 422, invalid, fields{"": "type"}},
		{"an empty object", `{}`, 422, invalid, fields{"/spec": "required"}},
		{"a spec of null", `{"spec":null}`, 422, invalid, fields{"/spec": "type"}},
		{"an unknown field", `{"spec":{},"nmae":"a"}`, 422, invalid, fields{"/nmae": "unknown-field"}},
		{"an unknown field that is null", `{"spec":{},"nmae":null}`, 422, invalid, fields{"/nmae": "unknown-field"}},
		{"an unknown field of the spec", spec(`"includeNamespaces":["a"]`), 422, invalid, fields{"/spec/includeNamespaces": "unknown-field"}},
		{"a field in other letters", spec(`"IncludedNamespaces":["a"]`), 422, invalid, fields{"/spec/IncludedNamespaces": "unknown-field"}},
		{"an unknown field far inside", spec(`"labelSelector":{"matchExpressions":[{"key":"a","operator":"Exists","vals":[]}]}`), 422, invalid,
			fields{"/spec/labelSelector/matchExpressions/0/vals": "unknown-field"}},
		{"a field of a later version", `{"spec":{},"timeout":"1h"}`, 422, invalid, fields{"/timeout": "unknown-field"}},

		{"a bad namespace", spec(`"includedNamespaces":["good","Bad_One"]`), 422, invalid, fields{"/spec/includedNamespaces/1": "invalid"}},
		{"a bad pattern", spec(`"includedNamespaces":["a**"],"excludedNamespaces":["[z-a]","x{1}"]`), 422, invalid,
			fields{"/spec/includedNamespaces/0": "invalid", "/spec/excludedNamespaces/0": "invalid", "/spec/excludedNamespaces/1": "invalid"}},
		{"a namespace in both lists", spec(`"includedNamespaces":["a","b"],"excludedNamespaces":["b"]`), 422, invalid, fields{"/spec/excludedNamespaces/0": "invalid"}},
		{"* among the excludes", spec(`"excludedNamespaces":["a","*"]`), 422, invalid, fields{"/spec/excludedNamespaces/1": "invalid"}},
		{"* beside other includes", spec(`"includedNamespaces":["a","*"]`), 422, invalid, fields{"/spec/includedNamespaces/1": "invalid"}},
		{"both kinds of selector", spec(`"labelSelector":{"matchLabels":{"a":"b"}},"orLabelSelectors":[{"matchLabels":{"c":"d"}}]`), 422, invalid,
			fields{"/spec/labelSelector": "conflict", "/spec/orLabelSelectors": "conflict"}},
		{"a selector of null", spec(`"orLabelSelectors":[null]`), 422, invalid, fields{"/spec/orLabelSelectors/0": "invalid"}},
		{"a bad operator", spec(`"labelSelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}`), 422, invalid, fields{"/spec/labelSelector/matchExpressions/0/operator": "invalid"}},
		{"no operator", spec(`"labelSelector":{"matchExpressions":[{"key":"a"}]}`), 422, invalid, fields{"/spec/labelSelector/matchExpressions/0/operator": "required"}},
		{"a negative ttl", spec(`"ttl":"-1h"`), 422, invalid, fields{"/spec/ttl": "invalid"}},
		{"a ttl in days", spec(`"ttl":"30d"`), 422, invalid, fields{"/spec/ttl": "invalid"}},
		{"a ttl that is a number", spec(`"ttl":3600`), 422, invalid, fields{"/spec/ttl": "type"}},
		{"a bad name", `{"name":"Shop_1","spec":{}}`, 422, invalid, fields{"/name": "invalid"}},
		{"an empty name", `{"name":"","spec":{}}`, 422, invalid, fields{"/name": "invalid"}},
		{"a name of 254", `{"name":"` + strings.Repeat("a", 254) + `","spec":{}}`, 422, invalid, fields{"/name": "invalid"}},
		{"a name that is wrong twice", `{"name":"` + strings.Repeat("A", 254) + `","spec":{}}`, 422, invalid, fields{"/name": "invalid"}},
		{"a bad cluster", `{"cluster":"a.b","spec":{}}`, 422, invalid, fields{"/cluster": "invalid"}},
		{"a bad label", `{"labels":{"a b":"c","d":"e f"},"spec":{}}`, 422, invalid, fields{"/labels/a b": "invalid", "/labels/d": "invalid"}},
		{"a label that is a number", `{"labels":{"a/b":1},"spec":{}}`, 422, invalid, fields{"/labels/a~1b": "type"}},
		{"a label that is null", `{"labels":{"a":null},"spec":{}}`, 422, invalid, fields{"/labels/a": "type"}},
		{"a reserved annotation", `{"annotations":{"berth-backup.io/id":"x"},"spec":{}}`, 422, invalid, fields{"/annotations/berth-backup.io~1id": "invalid"}},
		{"what is not done yet", spec(`"snapshotVolumes":true,"defaultVolumesToFsBackup":true,"datamover":"velero"`), 422, invalid,
			fields{"/spec/snapshotVolumes": "unsupported", "/spec/defaultVolumesToFsBackup": "unsupported", "/spec/datamover": "unsupported"}},

		{"everything at once", `{"name":"A","colour":"red","labels":{"ok":"ok","bad":7},
			"spec":{"tll":"1h","ttl":"-1h","includedNamespaces":["*","b",5,"C"],"excludedNamespaces":"d","storageLocation":[],
			        "includedResources":["pods"],"excludedResources":["pods"],"includeClusterResources":"yes"}}`, 422, invalid, fields{
			"/name": "invalid", "/colour": "unknown-field", "/labels/bad": "type",
			"/spec/tll": "unknown-field", "/spec/ttl": "invalid",
			"/spec/includedNamespaces/0": "invalid", "/spec/includedNamespaces/2": "type", "/spec/includedNamespaces/3": "invalid",
			"/spec/excludedNamespaces": "type", "/spec/storageLocation": "type",
			"/spec/excludedResources/0": "conflict", "/spec/includeClusterResources": "type",
		}},
		{"a missing spec beside a bad name", `{"name":"A"}`, 422, invalid, fields{"/name": "invalid", "/spec": "required"}},
		{"a wrong spec beside a bad name", `{"name":"A","spec":[]}`, 422, invalid, fields{"/name": "invalid", "/spec": "type"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url, client := serve(t, store{}) // a store that panics: nothing may reach it
			answer, body := post(t, client, url, test.body)
			problem := problemOf(t, answer, body)
			if answer.StatusCode != test.status || problem.Code != test.code {
				t.Errorf("got %d %s, want %d %s: %s", answer.StatusCode, problem.Code, test.status, test.code, body)
			}
			if diff := cmp.Diff(test.errors, places(problem)); diff != "" {
				t.Errorf("errors (-want +got):\n%s\n%s", diff, body)
			}
			if problem.Retryable {
				t.Error("a bad request is called retryable")
			}
		})
	}
}

func TestBadPathsAndQueries(t *testing.T) {
	t.Parallel()
	url, client := serve(t, working())
	type fields = map[string]string
	for _, test := range []struct {
		method, target string
		status         int
		code           berth.Code
		errors         fields
	}{
		{"GET", "/backups?stae=Queued", 400, berth.CodeMalformedRequest, fields{"stae": "unknown-parameter"}},
		{"GET", "/backups?Phase=Queued", 400, berth.CodeMalformedRequest, fields{"Phase": "unknown-parameter"}},
		{"GET", "/backups?limit=1&limit=2&x=", 400, berth.CodeMalformedRequest, fields{"limit": "duplicate-parameter", "x": "unknown-parameter"}},
		{"GET", "/backups?phase=New&phase=Queued", 400, berth.CodeMalformedRequest, fields{"phase": "duplicate-parameter"}},
		{"GET", "/backups?cluster=%00", 400, berth.CodeMalformedRequest, fields{"cluster": "invalid"}},
		{"GET", "/backups?cursor=%ff", 400, berth.CodeMalformedRequest, fields{"cursor": "invalid"}},
		{"GET", "/backups?cluster=%zz", 400, berth.CodeMalformedRequest, fields{}},
		{"GET", "/backups/" + missingID + "?x=1", 400, berth.CodeMalformedRequest, fields{"x": "unknown-parameter"}},
		{"POST", "/backups?dryrun=true", 400, berth.CodeMalformedRequest, fields{"dryrun": "unknown-parameter"}},
		{"POST", "/backups?dryRun=true&dryRun=true", 400, berth.CodeMalformedRequest, fields{"dryRun": "duplicate-parameter"}},
		{"GET", "/backups/" + missingID + "/logs?x=1", 400, berth.CodeMalformedRequest, fields{"x": "unknown-parameter"}},
		{"GET", "/backups/" + missingID + "/logs?attempt=0", 422, berth.CodeValidationFailed, fields{"attempt": "invalid"}},
		{"GET", "/backups/" + missingID + "/logs?attempt=x", 422, berth.CodeValidationFailed, fields{"attempt": "type"}},
		{"GET", "/backups/" + missingID + "/explain?x=1", 400, berth.CodeMalformedRequest, fields{"x": "unknown-parameter"}},
		{"PATCH", "/backups/" + missingID + "?x=1", 400, berth.CodeMalformedRequest, fields{"x": "unknown-parameter"}},
		{"GET", "/queue/settings?x=1", 400, berth.CodeMalformedRequest, fields{"x": "unknown-parameter"}},
		{"PATCH", "/queue/settings?x=1", 400, berth.CodeMalformedRequest, fields{"x": "unknown-parameter"}},
		{"POST", "/queue/pause?cluster=a", 400, berth.CodeMalformedRequest, fields{"cluster": "unknown-parameter"}},
		{"POST", "/queue/resume?cluster=a", 400, berth.CodeMalformedRequest, fields{"cluster": "unknown-parameter"}},
		{"POST", "/queue/simulate?cluster=a", 400, berth.CodeMalformedRequest, fields{"cluster": "unknown-parameter"}},
		{"GET", "/queue?limit=1&limit=2", 400, berth.CodeMalformedRequest, fields{"limit": "duplicate-parameter"}},
		{"GET", "/queue?clusters=a", 400, berth.CodeMalformedRequest, fields{"clusters": "unknown-parameter"}},
		{"GET", "/livez?verbose", 400, berth.CodeMalformedRequest, fields{"verbose": "unknown-parameter"}},
		{"GET", "/readyz?verbose", 400, berth.CodeMalformedRequest, fields{"verbose": "unknown-parameter"}},
		{"GET", "/openapi.yaml?x", 400, berth.CodeMalformedRequest, fields{"x": "unknown-parameter"}},

		{"GET", "/backups?limit=0", 422, berth.CodeValidationFailed, fields{"limit": "invalid"}},
		{"GET", "/backups?limit=-1", 422, berth.CodeValidationFailed, fields{"limit": "invalid"}},
		{"GET", "/backups?limit=", 422, berth.CodeValidationFailed, fields{"limit": "type"}},
		{"GET", "/backups?limit=1.5", 422, berth.CodeValidationFailed, fields{"limit": "type"}},
		{"GET", "/backups?limit=ten&phase=queued", 422, berth.CodeValidationFailed, fields{"limit": "type", "phase": "invalid"}},
		{"GET", "/backups?phase=", 422, berth.CodeValidationFailed, fields{"phase": "invalid"}},
		{"GET", "/backups?phase=Queued,Done,Gone", 422, berth.CodeValidationFailed, fields{"phase": "invalid"}},

		{"GET", "/queue?limit=0", 422, berth.CodeValidationFailed, fields{"limit": "invalid"}},
		{"GET", "/queue?limit=many", 422, berth.CodeValidationFailed, fields{"limit": "type"}},
		{"POST", "/backups?dryRun=yes", 422, berth.CodeValidationFailed, fields{"dryRun": "type"}},
		{"POST", "/backups?dryRun=1", 422, berth.CodeValidationFailed, fields{"dryRun": "type"}},
		{"POST", "/backups?dryRun=", 422, berth.CodeValidationFailed, fields{"dryRun": "type"}},

		{"GET", "/backups/" + missingID + "/explain", 404, berth.CodeNotFound, fields{}},
		{"GET", "/backups/" + missingID + "/logs", 404, berth.CodeNotFound, fields{}},
		{"POST", "/backups/" + missingID + "/logs", 405, berth.CodeMethodNotAllowed, fields{}},
		{"GET", "/backups/shop/explain", 404, berth.CodeNotFound, fields{}},
		{"PATCH", "/backups/shop", 404, berth.CodeNotFound, fields{}},
		{"GET", "/backups/" + missingID, 404, berth.CodeNotFound, fields{}},
		{"GET", "/backups/shop", 404, berth.CodeNotFound, fields{}},
		{"GET", "/backups/%2e%2e%2f", 404, berth.CodeNotFound, fields{}},
		{"GET", "/backups/", 404, berth.CodeNotFound, fields{}},
		{"GET", "/", 404, berth.CodeNotFound, fields{}},
		{"POST", "/backup", 404, berth.CodeNotFound, fields{}},
		{"DELETE", "/backups", 405, berth.CodeMethodNotAllowed, fields{}},
		{"POST", "/backups/" + missingID, 405, berth.CodeMethodNotAllowed, fields{}},
		{"POST", "/queue", 405, berth.CodeMethodNotAllowed, fields{}},
		{"POST", "/queue/settings", 405, berth.CodeMethodNotAllowed, fields{}},
		{"GET", "/queue/pause", 405, berth.CodeMethodNotAllowed, fields{}},
		{"POST", "/backups/" + missingID + "/explain", 405, berth.CodeMethodNotAllowed, fields{}},
		{"BREW", "/nothing", 404, berth.CodeNotFound, fields{}},
		{"BREW", "/queue", 405, berth.CodeMethodNotAllowed, fields{}},
	} {
		answer, body := send(t, client, test.method, url+test.target, "")
		problem := problemOf(t, answer, body)
		if answer.StatusCode != test.status || problem.Code != test.code {
			t.Errorf("%s %s: got %d %s, want %d %s: %s", test.method, test.target, answer.StatusCode, problem.Code, test.status, test.code, body)
		}
		if diff := cmp.Diff(test.errors, places(problem)); diff != "" {
			t.Errorf("%s %s: errors (-want +got):\n%s", test.method, test.target, diff)
		}
		if allow := answer.Header.Get("Allow"); (test.status == 405) != (allow != "") {
			t.Errorf("%s %s: Allow is %q", test.method, test.target, allow)
		}
	}
	if answer, _ := send(t, client, "DELETE", url+"/backups", ""); answer.Header.Get("Allow") != "GET, POST, HEAD" {
		t.Errorf("DELETE /backups: Allow is %q", answer.Header.Get("Allow"))
	}
}

func TestWhatTheStoreRefuses(t *testing.T) {
	t.Parallel()
	unknownLocation := &berth.Error{Code: berth.CodeValidationFailed, Detail: "A field is wrong.", Fields: []berth.FieldError{
		{Pointer: "/spec/storageLocation", Code: "unknown", Detail: "there is no such location"},
	}}
	badCursor := &berth.Error{Code: berth.CodeMalformedRequest, Detail: "A parameter is wrong.", Fields: []berth.FieldError{
		{Parameter: "cursor", Code: "invalid", Detail: "is no cursor of this list"},
	}}
	taken := &berth.Error{Code: berth.CodeNameTaken, Detail: "The name is taken.", ExistingID: queued.ID.String()}
	full := berth.Errorf(berth.CodeQueueFull, "5000 backups wait already.")
	conflict := berth.Errorf(berth.CodeStateConflict, "The backup is InProgress.")
	outdated := berth.Errorf(berth.CodePreconditionFailed, "The settings are others.")
	noCluster := berth.Errorf(berth.CodeNotFound, "There is no such cluster.")
	for _, test := range []struct {
		err    error
		target string
		status int
		errors map[string]string
	}{
		{unknownLocation, "POST /backups", 422, map[string]string{"/spec/storageLocation": "unknown"}},
		{fmt.Errorf("enqueue: %w", taken), "POST /backups", 409, map[string]string{}},
		{badCursor, "GET /backups?cursor=x", 400, map[string]string{"cursor": "invalid"}},
		{full, "POST /backups", 429, map[string]string{}},
		{full, "POST /backups?dryRun=true", 429, map[string]string{}},
		{conflict, "PATCH /backups/" + missingID, 409, map[string]string{}},
		{outdated, "PATCH /queue/settings", 412, map[string]string{}},
		{badCursor, "GET /queue?cursor=x", 400, map[string]string{"cursor": "invalid"}},
		{noCluster, "GET /queue?cluster=nowhere", 404, map[string]string{}},
		{noCluster, "GET /queue/settings?cluster=nowhere", 404, map[string]string{}},
		{noCluster, "PATCH /queue/settings?cluster=nowhere", 404, map[string]string{}},
		{noCluster, "POST /queue/pause", 404, map[string]string{}},
		{noCluster, "POST /queue/resume", 404, map[string]string{}},
		{noCluster, "POST /queue/simulate", 404, map[string]string{}},
	} {
		url, client := serve(t, failing(test.err))
		method, target, _ := strings.Cut(test.target, " ")
		body := `{"name":"a","spec":{"storageLocation":"nowhere"}}`
		switch {
		case method == "GET":
			body = ""
		case strings.HasPrefix(target, "/queue"):
			body = `{}`
		case method == "PATCH":
			body = `{"priority":1}`
		}
		answer, received := send(t, client, method, url+target, body, "Content-Type", "application/json", "If-Match", "*")
		problem := problemOf(t, answer, received)
		if answer.StatusCode != test.status {
			t.Errorf("%s: got %d, want %d: %s", test.target, answer.StatusCode, test.status, received)
		}
		if diff := cmp.Diff(test.errors, places(problem)); diff != "" {
			t.Errorf("%s: errors (-want +got):\n%s", test.target, diff)
		}
		var existing *uuid.UUID
		if strings.Contains(test.err.Error(), string(berth.CodeNameTaken)) {
			existing = &queued.ID
		}
		if diff := cmp.Diff(existing, problem.ExistingID); diff != "" {
			t.Errorf("%s: existingId (-want +got):\n%s", test.target, diff)
		}
	}
}
