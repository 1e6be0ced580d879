package backup_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/internal/devenv"
	"github.com/berth-backup/berth/objectstore"
	"github.com/berth-backup/berth/worker/backup"
)

// fixture is what most tests need: the API server, and a store of the test's own.
type fixture struct {
	*testing.T
	config *rest.Config
	// objects makes and reads objects; never used by what is tested.
	objects dynamic.Interface
	cluster *backup.Cluster
	store   *objectstore.Store
	// root is the store's folder on the disk.
	root string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, config: devenv.TestKubernetes(t).Config, root: t.TempDir()}
	var err error
	if f.objects, err = dynamic.NewForConfig(f.config); err != nil {
		t.Fatal(err)
	}
	f.cluster = f.clusterOf(f.config, backup.Options{})
	if f.store, err = objectstore.Open(t.Context(), "file://"+filepath.ToSlash(f.root), "east"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) clusterOf(config *rest.Config, options backup.Options) *backup.Cluster {
	f.Helper()
	if options.RetryWait == 0 {
		options.RetryWait = time.Millisecond
	}
	c, err := backup.NewCluster(config, options)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

func (f *fixture) namespace(prefix string) string {
	f.Helper()
	return devenv.TestNamespace(f.T, devenv.TestKubernetes(f.T), prefix)
}

// run is an admitted backup of the given namespaces, all of which exist.
func run(namespaces ...string) berth.Run {
	now := time.Now()
	return berth.Run{
		ID: uuid.Must(uuid.NewV7()), Cluster: berth.DefaultCluster, Name: "nightly", Attempt: 1, Fence: 7,
		Spec:     berth.Spec{IncludedNamespaces: namespaces},
		Contents: berth.Contents{Names: namespaces}, ItemBlockWorkerCount: 3,
		ReadyAt: now, ExpiresAt: now.Add(berth.DefaultTTL),
	}
}

// everything is an admitted backup of the whole cluster as it is now.
func (f *fixture) everything() berth.Run {
	f.Helper()
	r := run()
	for _, ns := range f.list("", "v1", "namespaces", "").Items {
		if ns.GetLabels()[berth.LabelExclude] == "true" {
			r.Contents.Excluded = append(r.Contents.Excluded, ns.GetName())
			continue
		}
		r.Contents.Names = append(r.Contents.Names, ns.GetName())
	}
	return r
}

func (f *fixture) take(job backup.Job) *backup.Taken {
	f.Helper()
	taken, err := backup.Take(f.Context(), f.cluster, f.store, job)
	if err != nil {
		f.Fatal(err)
	}
	return taken
}

func (f *fixture) takeAndPublish(r berth.Run) *backup.Taken {
	f.Helper()
	taken := f.take(backup.Job{Run: r})
	if err := taken.Publish(f.Context(), rowOf(r, taken.Outcome), "velero"); err != nil {
		f.Fatal(err)
	}
	return taken
}

// rowOf is the row of a run that has just ended.
func rowOf(r berth.Run, o berth.Outcome) berth.Backup {
	started, ended := r.ReadyAt, r.ReadyAt.Add(time.Second)
	return berth.Backup{
		ID: r.ID, Name: r.Name, Cluster: r.Cluster, Phase: o.Phase, Spec: r.Spec,
		CreatedAt: r.ReadyAt, StartedAt: &started, CompletedAt: &ended, ExpiresAt: &r.ExpiresAt,
		Progress: &o.Progress, Attempt: r.Attempt, Warnings: o.Warnings, Errors: o.Errors, Version: 5,
	}
}

func (f *fixture) object(name string) []byte {
	f.Helper()
	r, err := f.store.Read(f.Context(), "nightly", name)
	if err != nil {
		f.Fatal(err)
	}
	body, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		f.Fatal(err)
	}
	return body
}

// gunzipped is the content of an artefact.
func (f *fixture) gunzipped(name string) []byte {
	f.Helper()
	r, err := gzip.NewReader(bytes.NewReader(f.object(name)))
	if err != nil {
		f.Fatal(err)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		f.Fatal(err)
	}
	return body
}

// files unpacks the archive.
func (f *fixture) files() map[string][]byte {
	f.Helper()
	files := map[string][]byte{}
	f.unpack(func(header *tar.Header, body []byte) {
		if header.Typeflag != tar.TypeReg || header.Mode != 0o755 {
			f.Errorf("%s has type %q and mode %o", header.Name, header.Typeflag, header.Mode)
		}
		if files[header.Name] != nil {
			f.Errorf("%s stands twice in the archive", header.Name)
		}
		files[header.Name] = body
	})
	return files
}

func (f *fixture) headers() []*tar.Header {
	f.Helper()
	var headers []*tar.Header
	f.unpack(func(header *tar.Header, _ []byte) { headers = append(headers, header) })
	return headers
}

func (f *fixture) unpack(each func(*tar.Header, []byte)) {
	f.Helper()
	r := tar.NewReader(bytes.NewReader(f.gunzipped("nightly.tar.gz")))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			f.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			f.Fatal(err)
		}
		each(header, body)
	}
}

// plainPaths are those of the archive's objects, without the paths that name a version.
func (f *fixture) plainPaths() []string {
	f.Helper()
	var paths []string
	for name := range maps.Keys(f.files()) {
		if strings.HasPrefix(name, "resources/") && !strings.Contains(name, "-preferredversion/") {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	return paths
}

func (f *fixture) storeHolds() []string {
	f.Helper()
	names, err := f.store.List(f.Context(), "nightly")
	if err != nil {
		f.Fatal(err)
	}
	slices.Sort(names)
	return names
}

type results struct{ Errors, Warnings issues }

type issues struct {
	Velero, Cluster []string
	Namespaces      map[string][]string
}

func (f *fixture) results() results {
	f.Helper()
	var r results
	if err := json.Unmarshal(f.gunzipped("nightly-results.gz"), &r); err != nil {
		f.Fatal(err)
	}
	return r
}

func (f *fixture) list(group, version, resource, namespace string) *unstructured.UnstructuredList {
	f.Helper()
	gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
	list, err := f.objects.Resource(gvr).Namespace(namespace).List(f.Context(), metav1.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return list
}

// configMap makes a ConfigMap; change, if not nil, makes it special.
func (f *fixture) configMap(namespace, name string, change func(*unstructured.Unstructured)) {
	f.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"data":     map[string]any{"text": strings.Repeat("x", 100)},
	}}
	if change != nil {
		change(o)
	}
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	if _, err := f.objects.Resource(gvr).Namespace(namespace).Create(f.Context(), o, metav1.CreateOptions{}); err != nil {
		f.Error(err)
	}
}

// configMaps makes n ConfigMaps, named so that a list shows them in order.
func (f *fixture) configMaps(namespace string, n int) {
	f.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error { f.configMap(namespace, fmt.Sprintf("config-%05d", i), nil); return nil })
	}
	_ = group.Wait()
}

// nextAttempt is r admitted again after its lease was lost.
func nextAttempt(r berth.Run) berth.Run {
	r.Attempt++
	r.Fence += 10
	return r
}

func failureOf(t *testing.T, err error) *backup.Failure {
	t.Helper()
	failure, ok := errors.AsType[*backup.Failure](err)
	if !ok {
		t.Fatalf("the error is no Failure: %v", err)
	}
	return failure
}

func labelled(pairs ...string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		labels := map[string]string{}
		for pair := range slices.Chunk(pairs, 2) {
			labels[pair[0]] = pair[1]
		}
		o.SetLabels(labels)
	}
}

// apply creates the objects of a file of testdata, each placeholder replaced.
// Cluster-scoped ones go when the test ends.
func (f *fixture) apply(file, namespace string, replace ...string) []*unstructured.Unstructured {
	f.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		f.Fatal(err)
	}
	text := strings.NewReplacer(append(replace, "NAMESPACE", namespace)...).Replace(string(body))
	var made []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			f.Fatal(err)
		}
		if err := o.UnmarshalJSON(raw); err != nil {
			f.Fatalf("%v in %s", err, document)
		}
		made = append(made, f.create(o, namespace))
	}
	return made
}

func (f *fixture) create(o *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	f.Helper()
	gvk := o.GroupVersionKind()
	client := f.objects.Resource(schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: pluralOf(gvk.Kind)})
	var resource dynamic.ResourceInterface = client
	if namespace != "" {
		resource = client.Namespace(namespace)
	}
	// A custom resource is served a moment after its definition is made.
	deadline := time.Now().Add(20 * time.Second)
	for {
		made, err := resource.Create(f.Context(), o, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) && time.Now().Before(deadline) {
			continue
		}
		if err != nil {
			f.Fatalf("make %s %s: %v", gvk.Kind, o.GetName(), err)
		}
		if namespace == "" {
			f.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				if err := resource.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil {
					f.Errorf("remove %s %s: %v", gvk.Kind, o.GetName(), err)
				}
			})
		}
		return made
	}
}

func pluralOf(kind string) string {
	lower := strings.ToLower(kind)
	switch {
	case lower == "endpoints":
		return lower
	case strings.HasSuffix(lower, "policy"), strings.HasSuffix(lower, "capacity"):
		return strings.TrimSuffix(lower, "y") + "ies"
	case strings.HasSuffix(lower, "s"):
		return lower + "es"
	}
	return lower + "s"
}

// certificateRequest is a request that the API server accepts.
func certificateRequest(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "test"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}))
}

func suffixOf(namespace string) string { return namespace[strings.LastIndex(namespace, "-")+1:] }

func randomIP() string {
	b := make([]byte, 2)
	_, _ = rand.Read(b)
	return fmt.Sprintf("10.250.%d.%d", b[0], b[1])
}

// claim makes a PersistentVolumeClaim, bound to the volume of that name if there
// is one; the volume goes when the test ends.
func (f *fixture) claim(namespace, name, volume string, labels map[string]string) {
	f.Helper()
	client, err := kubernetes.NewForConfig(f.config)
	if err != nil {
		f.Fatal(err)
	}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	claims := client.CoreV1().PersistentVolumeClaims(namespace)
	claim, err := claims.Create(f.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size}, VolumeName: volume,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	if volume == "" {
		return
	}
	volumes := client.CoreV1().PersistentVolumes()
	if _, err := volumes.Create(f.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes, Capacity: size,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/" + volume}},
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: name, UID: claim.UID},
		},
	}, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := volumes.Delete(ctx, volume, metav1.DeleteOptions{}); err != nil {
			f.Errorf("remove the volume %s: %v", volume, err)
		}
	})
	claim.Status.Phase = corev1.ClaimBound
	if _, err := claims.UpdateStatus(f.Context(), claim, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
}

// apart makes a namespace that backups of everything, which other tests take, leave
// out: it has much in it, or objects that come and go.
func (f *fixture) apart(prefix string) string {
	f.Helper()
	namespace := devenv.TestNamespaceLabelled(f.T, devenv.TestKubernetes(f.T), prefix, map[string]string{berth.LabelExclude: "true"})
	f.empty(namespace)
	return namespace
}

// empty removes the pods and ConfigMaps of a namespace when the test ends: what is
// in a deleted namespace stays in the API server, where other tests list it.
func (f *fixture) empty(namespace string) {
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		now, core := int64(0), f.typed().CoreV1()
		options := metav1.DeleteOptions{GracePeriodSeconds: &now}
		err := core.Pods(namespace).DeleteCollection(ctx, options, metav1.ListOptions{})
		// One by one: the answer to the removal of many shows all of them.
		for _, o := range f.names(ctx, namespace) {
			err = errors.Join(err, core.ConfigMaps(namespace).Delete(ctx, o, options))
		}
		if err != nil {
			f.Error(err)
		}
	})
}

// names are those of the ConfigMaps of a namespace.
func (f *fixture) names(ctx context.Context, namespace string) []string {
	f.Helper()
	client, err := metadata.NewForConfig(f.config)
	if err != nil {
		f.Fatal(err)
	}
	list, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	var names []string
	for _, o := range list.Items {
		names = append(names, o.Name)
	}
	return names
}
