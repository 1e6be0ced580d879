package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/internal/devenv"
)

//go:embed testdata/shop.yaml
var shopObjects string

// shopKinds are the resources of testdata/shop.yaml as an archive names them.
var shopKinds = map[string]schema.GroupVersionResource{
	"configmaps":                             configMaps,
	"secrets":                                secrets,
	"serviceaccounts":                        {Version: "v1", Resource: "serviceaccounts"},
	"services":                               {Version: "v1", Resource: "services"},
	"persistentvolumeclaims":                 {Version: "v1", Resource: "persistentvolumeclaims"},
	"pods":                                   {Version: "v1", Resource: "pods"},
	"namespaces":                             {Version: "v1", Resource: "namespaces"},
	"deployments.apps":                       {Group: "apps", Version: "v1", Resource: "deployments"},
	"ingresses.networking.k8s.io":            {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	"roles.rbac.authorization.k8s.io":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"rolebindings.rbac.authorization.k8s.io": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
}

// POST → Completed → every object of the archive equals a GET.
func TestAnArchiveHoldsWhatTheAPIServerReturns(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	shop := devenv.TestNamespace(t, devenv.TestKubernetes(t), "shop")
	made := h.apply(shopObjects, shop)
	h.startWorker()
	a := h.post("a", shop)
	done := h.awaitPhase(a, berth.PhaseCompleted)
	files := unpack(t, []byte(h.artefacts("a")["a.tar.gz"]))
	if got := string(files["metadata/version"]); strings.TrimSpace(got) != "1.1.0" {
		t.Errorf("metadata/version is %q", got)
	}
	pattern := regexp.MustCompile(`^resources/([^/]+)/(?:namespaces/([^/]+)|cluster)/([^/]+)\.json$`)
	var found []string
	objects := 0
	for _, path := range slices.Sorted(maps.Keys(files)) {
		parts := pattern.FindStringSubmatch(path)
		if parts == nil {
			if !strings.Contains(path, "-preferredversion/") && path != "metadata/version" {
				t.Errorf("%s has no place in an archive", path)
			}
			continue
		}
		objects++
		resource, known := shopKinds[parts[1]]
		if !known {
			t.Errorf("%s is of a kind that the namespace does not have", path)
			continue
		}
		want, err := h.objects.Resource(resource).Namespace(parts[2]).Get(t.Context(), parts[3], metav1.GetOptions{})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var got map[string]any
		if err := json.Unmarshal(files[path], &got); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if diff := cmp.Diff(asJSON(t, want.Object), got); diff != "" {
			t.Errorf("%s (-GET +archive):\n%s", path, diff)
		}
		found = append(found, want.GetKind()+" "+want.GetName())
	}
	for _, object := range made {
		if name := object.GetKind() + " " + object.GetName(); !slices.Contains(found, name) {
			t.Errorf("%s is not in the archive", name)
		}
	}
	if done.Progress.ItemsBackedUp != objects || done.Progress.TotalItems != objects {
		t.Errorf("progress says %+v, the archive holds %d objects", done.Progress, objects)
	}
}

// apply makes the objects of a YAML text in a namespace.
func (h *house) apply(text, namespace string) []*unstructured.Unstructured {
	h.Helper()
	var made []*unstructured.Unstructured
	for document := range strings.SplitSeq(strings.ReplaceAll(text, "NAMESPACE", namespace), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			h.Fatal(err)
		}
		resource := resourceOf(h.T, object.GetKind())
		object, err := h.objects.Resource(resource).Namespace(namespace).Create(h.Context(), object, metav1.CreateOptions{})
		if err != nil {
			h.Fatal(err)
		}
		made = append(made, object)
	}
	return made
}

func resourceOf(t *testing.T, kind string) schema.GroupVersionResource {
	t.Helper()
	for _, resource := range shopKinds {
		if singular := strings.TrimSuffix(resource.Resource, "s"); strings.EqualFold(singular, kind) || strings.EqualFold(singular, kind+"e") {
			return resource
		}
	}
	t.Fatalf("no resource for the kind %s", kind)
	return schema.GroupVersionResource{}
}

// gunzipped is the text of a compressed artefact.
func gunzipped(t *testing.T, artefact string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(artefact))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unpack gives the files of an archive.
func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	r := tar.NewReader(compressed)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func asJSON(t *testing.T, object map[string]any) (same map[string]any) {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &same); err != nil {
		t.Fatal(err)
	}
	return same
}
