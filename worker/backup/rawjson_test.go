package backup

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestHeadOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		raw  string
		want head
	}{
		{`{"metadata":{"name":"a"}}`, head{name: "a"}},
		{` { "metadata" : { "name" : "a" , "namespace" : "n" } , "data" : { } } `, head{name: "a", namespace: "n"}},
		{`{"apiVersion":"v1","kind":"X","metadata":{"name":"a"}}`, head{name: "a", hasAPIVersion: true, hasKind: true}},
		{`{"metadata":{"name":"system:\u0041\"}{"}}`, head{name: `system:A"}{`}},
		{`{"metadata":{"name":"a","deletionTimestamp":null,"labels":null}}`, head{name: "a"}},
		{`{"metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"}}`, head{name: "a", deleting: true}},
		{`{"metadata":{"name":"a","labels":{"velero.io/exclude-from-backup":"true"}}}`, head{name: "a", excluded: true}},
		{`{"metadata":{"name":"a","labels":{"velero.io\/exclude-from-backup":"tr\u0075e"}}}`, head{name: "a", excluded: true}},
		{`{"metadata":{"name":"a","labels":{"velero.io/exclude-from-backup":"false"}}}`, head{name: "a"}},
		{`{"metadata":{"name":"a","annotations":{"velero.io/exclude-from-backup":"true"}}}`, head{name: "a"}},
		{`{"spec":{"metadata":{"name":"trap","namespace":"trap"},"apiVersion":"trap","kind":"trap"},"metadata":{"name":"a"}}`, head{name: "a"}},
		{`{"data":{"}":"\\","{":"\"","[":"\\\""},"n":-1.5e3,"b":true,"z":null,"metadata":{"name":"a"}}`, head{name: "a"}},
	} {
		got, err := headOf([]byte(test.raw))
		if err != nil {
			t.Errorf("%s: %v", test.raw, err)
		}
		got.rawLabels = nil
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(head{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.raw, diff)
		}
	}
}

func TestHeadOfRefusesWhatIsNoObject(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		``, ` `, `null`, `[]`, `"x"`, `1`, `{`, `{}`, `{"metadata":{}}`, `{"metadata":{"name":""}}`, `{"metadata":{"name":1}}`,
		`{"metadata":{"name":"a"`, `{"metadata":{"name":"a"}`, `{"metadata":{"name":"a`, `{"metadata" {"name":"a"}}`, `{"metadata":`,
		`{1:2}`, `{"metadata":"x"}`, `{"metadata":{"name":"\u00"}}`,
	} {
		if got, err := headOf([]byte(raw)); err == nil {
			t.Errorf("%s: %+v", raw, got)
		}
	}
}

func TestOpeningAddsWhatTheListLeftOut(t *testing.T) {
	t.Parallel()
	r := resource{group: "apps", version: "v1", plural: "deployments", kind: "Deployment", namespaced: true}
	for raw, want := range map[string]string{
		`{"metadata":{"name":"a"}}`:                                            `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}`,
		`{"kind":"Deployment","metadata":{"name":"a"}}`:                        `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}`,
		`{"metadata":{"name":"a"},"apiVersion":"apps/v1"}`:                     `{"kind":"Deployment","metadata":{"name":"a"},"apiVersion":"apps/v1"}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}`: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}`,
	} {
		h, err := headOf([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := opening(r, h) + raw[1:]; got != want {
			t.Errorf("%s became %s", raw, got)
		}
	}
}

func TestPathsStayInTheirFolder(t *testing.T) {
	t.Parallel()
	r := resource{group: "g.io", version: "v1beta1", plural: "xs", namespaced: true}
	plain, versioned, err := paths(r, head{namespace: "n", name: "system:a.b"})
	if err != nil || plain != "resources/xs.g.io/namespaces/n/system:a.b.json" || versioned != "resources/xs.g.io/v1beta1-preferredversion/namespaces/n/system:a.b.json" {
		t.Errorf("%s, %s, %v", plain, versioned, err)
	}
	plain, versioned, err = paths(resource{version: "v1", plural: "nodes"}, head{name: "a"})
	if err != nil || plain != "resources/nodes/cluster/a.json" || versioned != "resources/nodes/v1-preferredversion/cluster/a.json" {
		t.Errorf("%s, %s, %v", plain, versioned, err)
	}
	for _, h := range []head{
		{name: "a"}, {namespace: "n"}, {namespace: "n", name: ".."}, {namespace: "..", name: "a"},
		{namespace: "n", name: "a/b"}, {namespace: "n/m", name: "a"}, {namespace: "n", name: "a\x00"},
	} {
		if plain, _, err := paths(r, h); err == nil {
			t.Errorf("%+v went to %s", h, plain)
		}
	}
}

const twoItems = `{"kind":"XList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"next\u0021","remainingItemCount":3},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`

func TestReadList(t *testing.T) {
	t.Parallel()
	items := func(body string) (all []string, p page, err error) {
		p, err = readList(strings.NewReader(body), func(page) {}, func(raw []byte) error {
			all = append(all, string(raw))
			return nil
		})
		return all, p, err
	}
	got, p, err := items(twoItems)
	if err != nil || len(got) != 2 || got[1] != `{"metadata":{"name":"b"}}` || p != (page{next: "next!", remaining: 3}) {
		t.Errorf("%q, %+v, %v", got, p, err)
	}
	// Custom resources' lists have their metadata last.
	got, p, err = items(` { "items" : [ {"a":1} , {"b":[2,{}]} ] , "metadata" : { "continue" : "c" } } ` + "\n")
	if err != nil || len(got) != 2 || got[1] != `{"b":[2,{}]}` || p.next != "c" {
		t.Errorf("%q, %+v, %v", got, p, err)
	}
	for _, empty := range []string{`{"items":[]}`, `{"items":null}`} {
		if got, _, err := items(empty); err != nil || len(got) > 0 {
			t.Errorf("%s: %q, %v", empty, got, err)
		}
	}
	for _, bad := range []string{``, `[]`, `{}`, `null`, `{"kind":"Status","message":"x"}`, `{"items":{}}`, `{"items":[1,2`, `{"items":[`, `<html>`, `{"items":[],"metadata":"x"}`} {
		if got, _, err := items(bad); err == nil {
			t.Errorf("%s passed: %q", bad, got)
		}
	}
	for end := range len(twoItems) {
		if _, _, err := items(twoItems[:end]); err == nil {
			t.Errorf("%s passed", twoItems[:end])
		}
	}
}

func TestReadListHoldsObjectsLongerThanItsBuffer(t *testing.T) {
	t.Parallel()
	for _, length := range []int{readAhead - 30, readAhead, 3 * readAhead, keptBuffer + readAhead} {
		object := `{"data":"` + strings.Repeat(`\"x`, length/3) + `"}`
		body := `{"items":[{"first":1},` + object + `,{"last":1}],"metadata":{}}`
		var got []string
		_, err := readList(strings.NewReader(body), func(page) {}, func(raw []byte) error {
			got = append(got, string(raw))
			return nil
		})
		if err != nil || len(got) != 3 || got[1] != object || got[2] != `{"last":1}` {
			t.Errorf("length %d: %d objects, %v", length, len(got), err)
		}
	}
}

// FuzzReadList holds the reader against encoding/json: of every list that is
// JSON it must find the same items, byte by byte, and of every item the same
// fields.
func FuzzReadList(f *testing.F) {
	f.Add([]byte(twoItems))
	f.Add([]byte(`{"items":[{"a":"\\\"","b":[{}],"c":{"":1e5}},{"a":"\u2028"}]}`))
	f.Add([]byte(`{"items":[],"items":[{"a":null}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var want struct {
			Items []json.RawMessage `json:"items"`
		}
		if !json.Valid(body) || !utf8.Valid(body) || json.Unmarshal(body, &want) != nil || bytes.Count(body, []byte("tems")) != 1 {
			return
		}
		var got []json.RawMessage
		_, err := readList(bytes.NewReader(body), func(page) {}, func(raw []byte) error {
			got = append(got, bytes.Clone(raw))
			return nil
		})
		if err != nil {
			return
		}
		if len(got) != len(want.Items) {
			t.Fatalf("%d items, want %d, in %s", len(got), len(want.Items), body)
		}
		for i := range got {
			if !bytes.Equal(got[i], want.Items[i]) {
				t.Fatalf("item %d is %s, want %s", i, got[i], want.Items[i])
			}
			var object map[string]json.RawMessage
			if json.Unmarshal(got[i], &object) != nil || object == nil {
				continue
			}
			err := fields(got[i], func(key, value []byte) error {
				name, err := text(key)
				if err != nil {
					return err
				}
				if !json.Valid(value) {
					t.Fatalf("field %s is %s", name, value)
				}
				delete(object, name)
				return nil
			})
			if err != nil || len(object) > 0 {
				t.Fatalf("fields of %s: %v, missing %v", got[i], err, object)
			}
		}
	})
}
