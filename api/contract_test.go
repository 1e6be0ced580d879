package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pb33f/libopenapi"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/pb33f/libopenapi/orderedmap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/berth-backup/berth"
)

func document(t *testing.T) *v3.Document {
	t.Helper()
	parsed, err := libopenapi.NewDocument(berth.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	model, err := parsed.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	return &model.Model
}

func enumOf(t *testing.T, d *v3.Document, schema string) []string {
	t.Helper()
	var values []string
	for _, node := range d.Components.Schemas.GetOrZero(schema).Schema().Enum {
		values = append(values, node.Value)
	}
	return values
}

func texts[T ~string](values []T) []string {
	var found []string
	for _, v := range values {
		found = append(found, string(v))
	}
	return found
}

func TestClosedListsAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	d := document(t)
	for schema, want := range map[string][]string{
		"Code":       texts(berth.Codes()),
		"Phase":      texts(berth.Phases()),
		"WaitReason": texts(berth.WaitReasons()),
		"Basis":      texts(berth.Bases()),
	} {
		if diff := cmp.Diff(want, enumOf(t, d, schema)); diff != "" {
			t.Errorf("%s (-Go +openapi.yaml):\n%s", schema, diff)
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(berth.Codes())), slices.Sorted(maps.Keys(kinds))); diff != "" {
		t.Errorf("kinds of problems (-berth.Codes +kinds):\n%s", diff)
	}
}

func TestEveryOperationDeclaresTheStatusesOfItsCodes(t *testing.T) {
	t.Parallel()
	statuses := map[string]bool{}
	for _, kind := range kinds {
		statuses[fmt.Sprint(kind.status)] = true
	}
	for path, item := range document(t).Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			if operation.OperationId == "" || operation.Summary == "" || operation.Description == "" || len(operation.Tags) != 1 {
				t.Errorf("%s %s lacks an operationId, a summary, a description or a tag", method, path)
			}
			for status := range operation.Responses.Codes.KeysFromOldest() {
				if status >= "400" && !statuses[status] {
					t.Errorf("%s %s declares %s, which no code has", method, path, status)
				}
			}
		}
	}
}

// schemaProperties are the names of a schema's properties.
func schemaProperties(d *v3.Document, schema string) []string {
	return slices.Sorted(d.Components.Schemas.GetOrZero(schema).Schema().Properties.KeysFromOldest())
}

// jsonNames are the names of a struct's fields in JSON.
func jsonNames(of reflect.Type) []string {
	var names []string
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestSpecHasTheFieldsOfTheStruct(t *testing.T) {
	t.Parallel()
	d := document(t)
	for schema, of := range map[string]reflect.Type{
		"Spec":                     reflect.TypeFor[berth.Spec](),
		"SpecMetadata":             reflect.TypeFor[berth.Metadata](),
		"ResourcePolicy":           reflect.TypeFor[berth.ResourcePolicy](),
		"Hooks":                    reflect.TypeFor[berth.Hooks](),
		"LabelSelector":            reflect.TypeFor[metav1.LabelSelector](),
		"LabelSelectorRequirement": reflect.TypeFor[metav1.LabelSelectorRequirement](),
	} {
		if diff := cmp.Diff(jsonNames(of), schemaProperties(d, schema)); diff != "" {
			t.Errorf("%s (-struct +openapi.yaml):\n%s", schema, diff)
		}
	}
}

// corpus holds specs that the schema and the struct must judge alike: what the
// struct makes of a spec that both take, "" for one that both refuse.
var corpus = []struct{ spec, want string }{
	{`{}`, `{}`},
	{`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"labels":{"a":"b"}}}`},
	{`{"metadata":{}}`, `{}`},
	{`{"metadata":{"annotations":{}}}`, ``},
	{`{"metadata":[]}`, ``},
	{`{"includedNamespaces":["a","b-*",""],"excludedNamespaces":["c"]}`, `{"includedNamespaces":["a","b-*",""],"excludedNamespaces":["c"]}`},
	{`{"includedNamespaces":[]}`, `{}`},
	{`{"includedNamespaces":null}`, `{}`},
	{`{"includedNamespaces":"a"}`, ``},
	{`{"includedNamespaces":{"0":"a"}}`, ``},
	{`{"includedNamespaces":[1]}`, ``},
	{`{"includedNamespaces":[["a"]]}`, ``},
	{`{"IncludedNamespaces":["a"]}`, ``},
	{`{"includednamespaces":["a"]}`, ``},
	{`{"namespaces":["a"]}`, ``},
	{`{"includedResources":["pods"],"excludedResources":["events"]}`, `{"includedResources":["pods"],"excludedResources":["events"]}`},
	{`{"includedClusterScopedResources":["*"],"excludedClusterScopedResources":["nodes"],"includedNamespaceScopedResources":["pods"],"excludedNamespaceScopedResources":["events"]}`,
		`{"includedClusterScopedResources":["*"],"excludedClusterScopedResources":["nodes"],"includedNamespaceScopedResources":["pods"],"excludedNamespaceScopedResources":["events"]}`},
	{`{"excludedClusterScopedResources":true}`, ``},
	{`{"includeClusterResources":false}`, `{"includeClusterResources":false}`},
	{`{"includeClusterResources":null}`, `{}`},
	{`{"includeClusterResources":"false"}`, ``},
	{`{"includeClusterResources":0}`, ``},
	{`{"labelSelector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"In","values":["d"]},{"key":"e","operator":"Exists"}]}}`,
		`{"labelSelector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"In","values":["d"]},{"key":"e","operator":"Exists"}]}}`},
	{`{"labelSelector":{}}`, `{"labelSelector":{}}`},
	{`{"labelSelector":null}`, `{}`},
	{`{"labelSelector":"a=b"}`, ``},
	{`{"labelSelector":{"a":"b"}}`, ``},
	{`{"labelSelector":{"matchLabels":{"a":1}}}`, ``},
	{`{"labelSelector":{"matchLabels":["a"]}}`, ``},
	{`{"labelSelector":{"matchExpressions":{"key":"a"}}}`, ``},
	{`{"labelSelector":{"matchExpressions":[{"key":"a"}]}}`, ``},
	{`{"labelSelector":{"matchExpressions":[{"operator":"Exists"}]}}`, ``},
	{`{"labelSelector":{"matchExpressions":[{"key":"a","operator":"Exists","value":"b"}]}}`, ``},
	{`{"labelSelector":{"matchExpressions":[{"key":"a","operator":"In","values":"b"}]}}`, ``},
	{`{"orLabelSelectors":[{"matchLabels":{"a":"b"}},{"matchLabels":{"c":"d"}}]}`, `{"orLabelSelectors":[{"matchLabels":{"a":"b"}},{"matchLabels":{"c":"d"}}]}`},
	{`{"orLabelSelectors":{"matchLabels":{"a":"b"}}}`, ``},
	{`{"snapshotVolumes":false,"defaultVolumesToRestic":false,"defaultVolumesToFsBackup":false,"snapshotMoveData":false}`,
		`{"snapshotVolumes":false,"defaultVolumesToRestic":false,"defaultVolumesToFsBackup":false,"snapshotMoveData":false}`},
	{`{"snapshotMoveData":"no"}`, ``},
	{`{"ttl":"168h0m0s","csiSnapshotTimeout":"10m0s","itemOperationTimeout":"4h0m0s"}`, `{"ttl":"168h0m0s","csiSnapshotTimeout":"10m0s","itemOperationTimeout":"4h0m0s"}`},
	{`{"ttl":"1.5h"}`, `{"ttl":"1h30m0s"}`},
	{`{"ttl":"0"}`, `{}`},
	{`{"ttl":null}`, `{}`},
	{`{"ttl":"+90s"}`, `{"ttl":"1m30s"}`},
	{`{"ttl":""}`, ``},
	{`{"ttl":"1d"}`, ``},
	{`{"ttl":"P7D"}`, ``},
	{`{"ttl":"1h "}`, ``},
	{`{"ttl":"10000000h"}`, ``},
	{`{"ttl":3600}`, ``},
	{`{"ttl":{"duration":1}}`, ``},
	{`{"csiSnapshotTimeout":"soon"}`, ``},
	{`{"itemOperationTimeout":1.5}`, ``},
	{`{"storageLocation":"cold"}`, `{"storageLocation":"cold"}`},
	{`{"storageLocation":""}`, `{}`},
	{`{"storageLocation":["cold"]}`, ``},
	{`{"volumeSnapshotLocations":[],"volumeGroupSnapshotLabelKey":"","orderedResources":{},"datamover":""}`, `{}`},
	{`{"volumeSnapshotLocations":"aws"}`, ``},
	{`{"volumeGroupSnapshotLabelKey":1}`, ``},
	{`{"orderedResources":{"pods":["a"]}}`, ``},
	{`{"orderedResources":"pods=a"}`, ``},
	{`{"resourcePolicy":{"kind":"configmap"}}`, ``},
	{`{"resourcePolicy":"policy"}`, ``},
	{`{"resourcePolicy":null}`, `{}`},
	{`{"datamover":true}`, ``},
	{`{"uploaderConfig":null}`, `{}`},
	{`{"uploaderConfig":{}}`, `{"uploaderConfig":{}}`},
	{`{"uploaderConfig":{"parallelFilesUpload":"ten"}}`, ``},
	{`{"uploaderConfig":{"parallel":10}}`, ``},
	{`{"uploaderConfig":5}`, ``},
	{`{"hooks":{}}`, `{}`},
	{`{"hooks":{"resources":[]}}`, `{"hooks":{}}`},
	{`{"hooks":{"resources":{}}}`, ``},
	{`{"hooks":{"resources":[{"nmae":"a"}]}}`, ``},
	{`{"hooks":{"resources":[{"name":"a","pre":[{"exec":{"command":"ls"}}]}]}}`, ``},
	{`{"hooks":[]}`, ``},
	{`{"hooks":{"resources":[{"name":"freeze","includedNamespaces":["shop-*"],"labelSelector":{"matchLabels":{"app":"db"}},"pre":[{"exec":{"container":"db","command":["fsfreeze","-f","/data"],"onError":"Fail","timeout":"10s"}}],"post":[{"exec":{"command":["fsfreeze","-u","/data"]}}]}]}}`,
		`{"hooks":{"resources":[{"name":"freeze","includedNamespaces":["shop-*"],"labelSelector":{"matchLabels":{"app":"db"}},"pre":[{"exec":{"container":"db","command":["fsfreeze","-f","/data"],"onError":"Fail","timeout":"10s"}}],"post":[{"exec":{"command":["fsfreeze","-u","/data"]}}]}]}}`},
	{`{"hooks":{"resources":[{"name":"a","pre":[{"exec":{"command":["ls"],"onError":"Maybe"}}]}]}}`, ``},
	{`{"hooks":{"resources":[{"name":"a","pre":[{"exec":{"command":["ls"],"timeout":30}}]}]}}`, ``},
	{`{"orderedResources":{"pods":"shop/db-0,shop/db-1"},"resourcePolicy":{"kind":"configmap","name":"policy"}}`, `{"orderedResources":{"pods":"shop/db-0,shop/db-1"},"resourcePolicy":{"kind":"configmap","name":"policy"}}`},
	{`null`, ``},
	{`[]`, ``},
	{`"all"`, ``},
}

func TestSchemaAndStructAgree(t *testing.T) {
	t.Parallel()
	for _, test := range corpus {
		value, err := parseJSON([]byte(`{"spec":` + test.spec + `}`))
		if err != nil {
			t.Errorf("%s: %v", test.spec, err)
			continue
		}
		bySchema := openAPI().body("POST /backups").check(value)
		if (len(bySchema) == 0) != (test.want != "") {
			t.Errorf("%s: the schema finds %v", test.spec, bySchema)
		}
		got, byStruct := throughStruct(t, value)
		if (byStruct == nil) != (test.want != "") {
			t.Errorf("%s: the struct finds %v", test.spec, byStruct)
		}
		if test.want != "" && !sameJSON(t, got, test.want) {
			t.Errorf("%s: the struct makes %s of it, want %s", test.spec, got, test.want)
		}
	}
}

// throughStruct decodes the spec of a body as strictly as Kubernetes decodes
// objects, and encodes it again. The domain's word counts too, since the struct
// keeps as raw JSON what Berth does not act on and refuses by name. Null is
// taken out before, as it is for requests; a spec of null is no spec.
func throughStruct(t *testing.T, value any) (encoded string, refused error) {
	t.Helper()
	cleaned, err := json.Marshal(withoutWrongFields(value, nil, false))
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Spec *berth.Spec `json:"spec"`
	}
	strict, err := kjson.UnmarshalStrict(cleaned, &body)
	switch {
	case err != nil:
		return "", err
	case len(strict) > 0:
		return "", strict[0]
	case body.Spec == nil:
		return "", errors.New("no spec")
	}
	if problems := body.Spec.Validate(); len(problems) > 0 {
		return "", &berth.Error{Code: berth.CodeValidationFailed, Fields: problems}
	}
	again, err := json.Marshal(body.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(again), nil
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var left, right any
	if err := errors.Join(json.Unmarshal([]byte(a), &left), json.Unmarshal([]byte(b), &right)); err != nil {
		t.Fatalf("%s, %s: %v", a, b, err)
	}
	return cmp.Equal(left, right)
}

func TestExamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	d := document(t)
	checked := 0
	check := func(where string, contents *orderedmap.Map[string, *v3.MediaType]) {
		for mediaType, media := range contents.FromOldest() {
			if media.Examples.Len() == 0 {
				continue
			}
			schema, err := compile(media.Schema.Schema())
			if err != nil {
				t.Fatalf("%s %s: %v", where, mediaType, err)
			}
			for name, example := range media.Examples.FromOldest() {
				var value any
				if err := example.Value.Decode(&value); err != nil {
					t.Fatalf("%s, example %s: %v", where, name, err)
				}
				if problems := shapeErrors(schema, value); len(problems) > 0 {
					t.Errorf("%s, example %s: %v", where, name, problems)
				}
				checked++
			}
		}
	}
	for path, item := range d.Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			if operation.RequestBody != nil {
				check(method+" "+path, operation.RequestBody.Content)
			}
			for status, response := range operation.Responses.Codes.FromOldest() {
				check(method+" "+path+" "+status, response.Content)
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d examples were found", checked)
	}
}

func FuzzParseJSON(f *testing.F) {
	for _, seed := range []string{`{"spec":{"ttl":"1h"}}`, `[1,null,true,"a"]`, `{"a":1,"a":2}`, `1 2`, "\"\\u0000\"", `{"a":[{}]}`, ``, `]`, `{]`, `{"a"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parseJSON(body)
		if err != nil {
			if berth.CodeOf(err) != berth.CodeMalformedRequest {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		var want any
		if err := decoder.Decode(&want); err != nil || decoder.More() {
			t.Fatalf("%q was taken, encoding/json says %v", body, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-encoding/json +parseJSON):\n%s", body, diff)
		}
	})
}

func TestTheExampleOfAProblemIsWhatIsAnswered(t *testing.T) {
	t.Parallel()
	var example map[string]any
	declared := document(t).Components.Responses.GetOrZero("ValidationFailed").Content.GetOrZero("application/problem+json")
	if err := declared.Examples.GetOrZero("twoFields").Value.Decode(&example); err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(example)
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), "POST", "/backups", strings.NewReader(`{"spec":{"includedNamespaces":["shop**"],"tll":"1h"}}`))
	request.Header.Set("X-Request-Id", "deploy-4711")
	answer := httptest.NewRecorder()
	New(noRows{}, Options{}).ServeHTTP(answer, request)
	if got := answer.Body.String(); !sameJSON(t, got, string(want)) {
		t.Errorf("answered:\n%s\nexample:\n%s", got, want)
	}
}

func BenchmarkRefusingABadBody(b *testing.B) {
	handler := New(nil, Options{})
	for b.Loop() {
		request := httptest.NewRequestWithContext(b.Context(), "POST", "/backups", strings.NewReader(`{"name":"A","spec":{"includedNamespaces":["shop**"],"tll":"1h"}}`))
		handler.ServeHTTP(httptest.NewRecorder(), request)
	}
}

// noRows is a store that is asked about rows only, and finds nothing wrong.
type noRows struct{ Store }

func (noRows) RowProblems(context.Context, berth.Request) ([]berth.FieldError, error) {
	return nil, nil
}
