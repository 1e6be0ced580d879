//go:build velero

package main

import (
	"context"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/internal/devenv"
)

var (
	storageLocations = schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backupstoragelocations"}
	deployments      = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	restores         = schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "restores"}
)

// stockVelero is a house with a Velero that reads what Berth writes: it lives in a
// namespace of its own, so that it knows of Berth's backups by the store alone.
type stockVelero struct {
	*house
	*devenv.Velero
	bucket *bucket
	home   string
}

func newStockVelero(t *testing.T) *stockVelero {
	t.Helper()
	k := devenv.TestKubernetes(t)
	s := &stockVelero{home: devenv.TestNamespace(t, k, "stock"), bucket: newBucket(t)}
	credentials := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(credentials, []byte("[default]\naws_access_key_id=test\naws_secret_access_key=test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	s.Velero, err = devenv.StartVelero(t.Context(), devenv.VeleroOptions{
		Kubeconfig: k.Kubeconfig, Namespace: s.home, Credentials: credentials, Progress: os.Stderr,
		Args: []string{"--backup-sync-period", "1s", "--store-validation-frequency", "1s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("velero server:\n%s", s.Log())
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.house = newHouse(t)
	// Its plugins look themselves up.
	s.create(deployments, s.home, map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "velero"},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"deploy": "velero"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"deploy": "velero"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "velero", "image": "example.com/velero"}}},
			},
		},
	})
	s.environment = append(s.environment, "BERTH_STORAGE_URL="+s.bucket.url)
	bucketURL, err := url.Parse(s.bucket.url)
	if err != nil {
		t.Fatal(err)
	}
	s.create(storageLocations, s.home, map[string]any{
		"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{
			"provider": "aws", "default": true,
			"objectStorage": map[string]any{"bucket": bucketURL.Host, "prefix": berth.DefaultCluster},
			"config": map[string]any{
				"region": "us-east-1", "s3ForcePathStyle": "true", "s3Url": bucketURL.Query().Get("endpoint"), "checksumAlgorithm": "",
			},
		},
	})
	return s
}

// awaitSync waits until Velero has imported a backup from the store.
func (s *stockVelero) awaitSync(name string) *unstructured.Unstructured {
	s.T.Helper()
	var found *unstructured.Unstructured
	awaitFor(s.T, 3*time.Minute, "Velero imports backup "+name, func() bool {
		var err error
		found, err = s.objects.Resource(backupObjects).Namespace(s.home).Get(s.Context(), name, metav1.GetOptions{})
		return err == nil
	})
	return found
}

func awaitFor(t *testing.T, patience time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// velero runs a command of the velero program.
func (s *stockVelero) velero(args ...string) string {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 3*time.Minute)
	defer cancel()
	printed, err := s.Run(ctx, args...)
	if err != nil {
		s.Fatalf("velero %s: %v", strings.Join(args, " "), err)
	}
	return printed
}

func says(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

// Stock Velero finds a backup that Berth wrote, describes it, shows its log,
// downloads it and restores it: what comes back is what was there.
func TestStockVeleroRestoresWhatBerthWrote(t *testing.T) {
	s := newStockVelero(t)
	s.startServer()
	s.startWorker()
	shop := s.namespace("shop", 2)
	suffix := shop[strings.LastIndex(shop, "-")+1:]
	definition := s.furnish(shop, suffix)

	s.postSpec("full", berth.Spec{IncludedNamespaces: []string{shop}})
	s.postSpec("empty", berth.Spec{IncludedNamespaces: []string{"nobody-*"}})
	s.postSpec("partial", berth.Spec{IncludedNamespaces: []string{shop, "no-such-" + suffix}, IncludedResources: []string{"configmaps"}})
	imported := s.awaitSync("full")
	if status, _ := imported.Object["status"].(map[string]any); status["phase"] != "Completed" {
		t.Errorf("imported as %v", status)
	}
	s.awaitSync("empty")
	s.awaitSync("partial")

	details := s.velero("backup", "describe", "full", "--details")
	says(t, "velero backup describe --details", details, "Phase:", "Completed", "Backup Format Version:", "1.1.0", "Resource List:", "v1/ConfigMap:",
		"- "+shop+"/settings-0", "apps/v1/Deployment:", "apiextensions.k8s.io/v1/CustomResourceDefinition:", "Expiration:", "Velero-Native Snapshots: <none included>")
	says(t, "velero backup describe", s.velero("backup", "describe", "partial"), "PartiallyFailed", "Errors:", "no-such-"+suffix+" does not exist")
	says(t, "velero backup describe", s.velero("backup", "describe", "empty"), "Completed", "Warnings:", "no namespace matches the patterns")
	says(t, "velero backup logs", s.velero("backup", "logs", "full"), `msg="backup collected"`, "phase=Completed")
	if want, got := s.bucket.artefacts(t, "full")["full.tar.gz"], s.downloaded("full"); want != got {
		t.Errorf("velero backup download has %d bytes, the store %d", len(got), len(want))
	}

	before := s.inventory(shop)
	if len(before) < 12 {
		t.Fatalf("only %d objects: %q", len(before), slices.Sorted(maps.Keys(before)))
	}
	s.emptied(shop, definition)
	s.velero("restore", "create", "again", "--from-backup", "full")
	var phase any
	awaitFor(t, 5*time.Minute, "the restore ends", func() bool {
		restore, err := s.objects.Resource(restores).Namespace(s.home).Get(t.Context(), "again", metav1.GetOptions{})
		if err != nil {
			return false
		}
		status, _ := restore.Object["status"].(map[string]any)
		phase = status["phase"]
		return phase == "Completed" || phase == "PartiallyFailed" || phase == "Failed"
	})
	if phase != "Completed" {
		t.Errorf("the restore is %v:\n%s\n%s", phase, s.velero("restore", "describe", "again", "--details"), s.velero("restore", "logs", "again"))
	}
	if diff := cmp.Diff(before, s.inventory(shop)); diff != "" {
		t.Errorf("what came back (-before +after):\n%s", diff)
	}
}

// furnish makes an object of each of many kinds, one of a kind of its own.
func (s *stockVelero) furnish(namespace, suffix string) (definition string) {
	s.T.Helper()
	group := "a" + suffix + ".example.com"
	definition = "widgets." + group
	text, err := os.ReadFile("testdata/furnished.yaml")
	if err != nil {
		s.Fatal(err)
	}
	text = []byte(strings.NewReplacer("NAMESPACE", namespace, "GROUP", group, "SUFFIX", suffix).Replace(string(text)))
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			s.Fatal(err)
		}
		s.make(&o)
	}
	return definition
}

// make makes an object; a custom one is served a moment after its definition.
func (s *stockVelero) make(o *unstructured.Unstructured) {
	s.T.Helper()
	awaitFor(s.T, time.Minute, "make "+o.GetKind()+" "+o.GetName(), func() bool {
		for _, r := range s.served() {
			if r.kind != o.GetKind() || r.gvr.GroupVersion().String() != o.GetAPIVersion() {
				continue
			}
			namespace := o.GetNamespace()
			_, err := s.objects.Resource(r.gvr).Namespace(namespace).Create(s.Context(), o, metav1.CreateOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				s.Fatalf("make %s %s: %v", o.GetKind(), o.GetName(), err)
			}
			return err == nil
		}
		return false
	})
}

type servedKind struct {
	gvr        schema.GroupVersionResource
	kind       string
	namespaced bool
}

// served are the kinds whose objects can be listed, made and removed.
func (s *stockVelero) served() (kinds []servedKind) {
	s.T.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(devenv.TestKubernetes(s.T).Config)
	if err != nil {
		s.Fatal(err)
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		s.Fatal(err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			s.Fatal(err)
		}
		for _, r := range list.APIResources {
			verbs := r.Verbs.String()
			if strings.Contains(verbs, "list") && strings.Contains(verbs, "create") && strings.Contains(verbs, "delete") {
				kinds = append(kinds, servedKind{gv.WithResource(r.Name), r.Kind, r.Namespaced})
			}
		}
	}
	return kinds
}

// inventory are all objects of a namespace, without what no restore brings back.
func (s *stockVelero) inventory(namespace string) map[string]any {
	s.T.Helper()
	found := map[string]any{}
	for _, r := range s.served() {
		if !r.namespaced || r.kind == "Event" || r.kind == "Lease" {
			continue
		}
		list, err := s.objects.Resource(r.gvr).Namespace(namespace).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			s.Fatalf("list %s: %v", r.gvr, err)
		}
		for _, o := range list.Items {
			found[r.gvr.Resource+"/"+o.GetName()] = comparable(o)
		}
	}
	return found
}

// comparable drops what the API server and Velero give to each new object.
func comparable(o unstructured.Unstructured) any {
	for _, field := range [][]string{
		{"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "creationTimestamp"}, {"metadata", "managedFields"}, {"metadata", "generation"},
		{"metadata", "labels", "velero.io/backup-name"}, {"metadata", "labels", "velero.io/restore-name"},
		{"status"}, {"spec", "clusterIP"}, {"spec", "clusterIPs"},
	} {
		unstructured.RemoveNestedField(o.Object, field...)
	}
	if len(o.GetLabels()) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "labels")
	}
	return o.Object
}

// emptied removes every object of a namespace, and the definition of the custom ones.
func (s *stockVelero) emptied(namespace, definition string) {
	s.T.Helper()
	now := int64(0)
	for _, r := range s.served() {
		if !r.namespaced {
			continue
		}
		client := s.objects.Resource(r.gvr).Namespace(namespace)
		list, err := client.List(s.Context(), metav1.ListOptions{})
		if err != nil {
			s.Fatal(err)
		}
		for _, o := range list.Items {
			if len(o.GetFinalizers()) > 0 {
				_, err := client.Patch(s.Context(), o.GetName(), "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				if err != nil {
					s.Fatal(err)
				}
			}
			if err := client.Delete(s.Context(), o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) {
				s.Fatal(err)
			}
		}
	}
	if err := s.objects.Resource(definitions).Delete(s.Context(), definition, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	awaitFor(s.T, time.Minute, "the custom kind is gone", func() bool {
		return !slices.ContainsFunc(s.served(), func(k servedKind) bool { return k.kind == "Widget" }) && len(s.inventory(namespace)) == 0
	})
}

// downloaded is the archive as the velero program downloads it.
func (s *stockVelero) downloaded(name string) string {
	s.T.Helper()
	path := filepath.Join(s.TempDir(), name+".tar.gz")
	s.velero("backup", "download", name, "-o", path)
	body, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	return string(body)
}
