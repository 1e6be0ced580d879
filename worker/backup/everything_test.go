package backup_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/berth-backup/berth"
)

// "Everything" means every object that can be listed and created again. This
// holds the archive against the API server: nothing is missing, and each
// object is what a GET returns.
func TestEverythingIsInTheArchiveAsTheAPIServerReturnsIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	namespace := f.namespace("everything")
	suffix := suffixOf(namespace)
	group := suffix + ".example.com"
	made := f.apply("crds.yaml", "", "GROUP", group)
	made = append(made, f.apply("cluster.yaml", "", "GROUP", group, "SUFFIX", suffix, "IPADDRESS", randomIP(), "CSRREQUEST", certificateRequest(t))...)
	made = append(made, f.apply("namespaced.yaml", namespace)...)
	made = append(made, f.apply("custom.yaml", namespace, "GROUP", group)...)

	// Other tests make and remove objects meanwhile: what is there before and
	// after must be in the archive. Namespaces of tests that have ended are gone,
	// but nothing here empties them.
	before := f.inventory()
	r := f.everything()
	taken := f.takeAndPublish(r)
	after := f.inventory()

	if taken.Outcome.Phase != berth.PhaseCompleted {
		t.Errorf("the outcome is %+v: %+v", taken.Outcome, f.results())
	}
	files := f.files()
	if got := string(files["metadata/version"]); got != "1.1.0\n" {
		t.Errorf("metadata/version is %q", got)
	}
	paths := f.plainPaths()
	if taken.Outcome.Progress.ItemsBackedUp != len(paths) || taken.Outcome.Progress.TotalItems != len(paths) {
		t.Errorf("progress is %+v for %d objects", taken.Outcome.Progress, len(paths))
	}
	missing, changed, kinds := 0, 0, map[string]bool{}
	for path, o := range before {
		if later, still := after[path]; !still || o.leaving || later.leaving {
			continue
		}
		if o.namespace != "" && !slices.Contains(r.Contents.Names, o.namespace) {
			continue
		}
		if files[path] == nil {
			t.Errorf("%s is not in the archive", path)
			missing++
		}
		kinds[o.resource] = true
	}
	get := f.getter()
	for _, path := range paths {
		o, known := after[path]
		if !known {
			continue // gone meanwhile, with another test
		}
		if !bytes.Equal(files[path], files[o.versionedPath]) {
			t.Errorf("%s and %s differ", path, o.versionedPath)
		}
		want, got := decode(t, get(o.url)), decode(t, files[path])
		if versionOf(want) != versionOf(got) {
			changed++ // by another test or the API server itself
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs from a GET (-GET +archive):\n%s", path, diff)
		}
	}
	t.Logf("%d objects of %d kinds compared, %d of them had changed", len(paths), len(kinds), changed)
	for _, o := range made {
		path := pathOf(o.GetUID(), after)
		if path == "" || files[path] == nil {
			t.Errorf("%s %s, which the test made, is not in the archive", o.GetKind(), o.GetName())
		}
	}
	for _, r := range f.collectable() {
		if !kinds[r] {
			t.Errorf("no object of %s exists, so nothing was learned about it: add one to testdata", r)
		}
	}
}

// known is one object of the cluster.
type known struct {
	resource, namespace, url, versionedPath string
	uid                                     types.UID
	// leaving objects are being deleted or kept out by the label: other tests do both.
	leaving bool
}

// inventory lists every object of the cluster without the code under test, by
// its path in the archive.
func (f *fixture) inventory() map[string]known {
	f.Helper()
	all := map[string]known{}
	for _, list := range f.preferred() {
		group, version, hasGroup := strings.Cut(list.GroupVersion, "/")
		if !hasGroup {
			group, version = "", group
		}
		for _, r := range list.APIResources {
			if !isCollectable(r) || r.Name == "events" && group != "" {
				continue
			}
			resource, base := r.Name, "/api/v1/"
			if group != "" {
				resource, base = r.Name+"."+group, "/apis/"+list.GroupVersion+"/"
			}
			for _, o := range f.list(group, version, r.Name, "").Items {
				place, url := "cluster", base+r.Name+"/"+o.GetName()
				if r.Namespaced {
					place, url = "namespaces/"+o.GetNamespace(), base+"namespaces/"+o.GetNamespace()+"/"+r.Name+"/"+o.GetName()
				}
				all[fmt.Sprintf("resources/%s/%s/%s.json", resource, place, o.GetName())] = known{
					resource: resource, namespace: o.GetNamespace(), url: url, uid: o.GetUID(),
					leaving:       o.GetDeletionTimestamp() != nil || o.GetLabels()[berth.LabelExclude] == "true",
					versionedPath: fmt.Sprintf("resources/%s/%s-preferredversion/%s/%s.json", resource, version, place, o.GetName()),
				}
			}
		}
	}
	return all
}

func (f *fixture) preferred() []*metav1.APIResourceList {
	f.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(f.config)
	if err != nil {
		f.Fatal(err)
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		f.Fatal(err)
	}
	return lists
}

func isCollectable(r metav1.APIResource) bool {
	return !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "create") && slices.Contains(r.Verbs, "get")
}

func (f *fixture) collectable() []string {
	f.Helper()
	var names []string
	for _, list := range f.preferred() {
		group, _, hasGroup := strings.Cut(list.GroupVersion, "/")
		for _, r := range list.APIResources {
			switch {
			case !isCollectable(r), r.Name == "events" && hasGroup, strings.HasSuffix(group, ".example.com"):
			case hasGroup:
				names = append(names, r.Name+"."+group)
			default:
				names = append(names, r.Name)
			}
		}
	}
	return names
}

// pathOf is where the archive has the object of that uid.
func pathOf(uid types.UID, all map[string]known) string {
	for path, o := range all {
		if o.uid == uid {
			return path
		}
	}
	return ""
}

// getter answers with the body of a GET.
func (f *fixture) getter() func(url string) []byte {
	f.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(f.config)
	if err != nil {
		f.Fatal(err)
	}
	var api rest.Interface = client.RESTClient()
	return func(url string) []byte {
		body, err := api.Get().AbsPath(url).SetHeader("Accept", "application/json").DoRaw(f.Context())
		if err != nil {
			return []byte("{}") // gone meanwhile, with another test
		}
		return body
	}
}

func decode(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var o map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&o); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return o
}

func versionOf(o map[string]any) any {
	metadata, _ := o["metadata"].(map[string]any)
	return metadata["resourceVersion"]
}
