package backup_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/worker/backup"
)

// Objects that change, vanish and appear between the pages of a list, which
// expires on page 20 besides: each that stood still is there once, as it is; one
// that changed is there in one of its states; nothing is an error.
func TestObjectsThatChangeAndVanishWhileListed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ns := f.apart("changing")
	f.configMaps(ns, 250)
	client := f.typed().CoreV1().ConfigMaps(ns)
	var pages atomic.Int32
	f.through(backup.Options{PageSize: 10}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		if !lists(request, "configmaps") {
			return next.RoundTrip(request)
		}
		page := int(pages.Add(1))
		if page == 20 {
			return status(request, http.StatusGone, metav1.StatusReasonExpired), nil
		}
		response, err := next.RoundTrip(request)
		if page < 20 {
			// One that was listed and one that was not yet, of each sort.
			for _, i := range []int{page, 250 - page} {
				ctx := context.WithoutCancel(request.Context())
				switch page % 3 {
				case 0:
					err = join(err, client.Delete(ctx, fmt.Sprintf("config-%05d", i), metav1.DeleteOptions{}))
				case 1:
					_, patchErr := client.Patch(ctx, fmt.Sprintf("config-%05d", i), "application/merge-patch+json", []byte(`{"data":{"text":"changed"}}`), metav1.PatchOptions{})
					err = join(err, patchErr)
				case 2:
					made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("config-%05d-more", i)}}
					_, createErr := client.Create(ctx, made, metav1.CreateOptions{})
					err = join(err, createErr)
				}
			}
		}
		return response, err
	})
	o := f.takeAndPublish(run(ns)).Outcome
	if o.Phase != berth.PhaseCompleted || o.Errors+o.Warnings != 0 || o.Progress.ItemsBackedUp != o.Progress.TotalItems {
		t.Errorf("the outcome is %+v: %+v", o, f.results())
	}
	files := f.files() // a file that stands twice is an error of it
	changed, vanished := 0, 0
	for i := range 250 {
		name := fmt.Sprintf("config-%05d", i)
		raw, archived := files["resources/configmaps/namespaces/"+ns+"/"+name+".json"]
		touched := i > 0 && i < 20 || i > 230
		switch step := min(i, 250-i) % 3; {
		case touched && step == 0:
			if !archived {
				vanished++
			}
			continue
		case !archived:
			t.Errorf("%s is missing", name)
			continue
		case touched && step == 1:
			changed++
			continue
		}
		var got, want map[string]any
		object, err := f.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want = object.Object
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if i%25 == 0 {
			if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	if changed == 0 || vanished == 0 {
		t.Errorf("%d objects changed and %d vanished: the test shows nothing", changed, vanished)
	}
}

func join(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// 10,000 objects of a kind: all are there, each once.
func TestTenThousandObjectsOfAKind(t *testing.T) {
	t.Parallel()
	const objects = 10_000
	f := newFixture(t)
	ns := f.apart("crowd")
	leases := f.typed().CoordinationV1().Leases(ns)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range objects {
		group.Go(func() error {
			_, err := leases.Create(t.Context(), lease(fmt.Sprintf("lease.%05d", i)), metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	r := run(ns)
	r.Spec.IncludedNamespaceScopedResources = []string{"leases"}
	o := f.takeAndPublish(r).Outcome
	if o.Phase != berth.PhaseCompleted || o.Progress.ItemsBackedUp != objects || o.Progress.TotalItems != objects {
		t.Errorf("the outcome is %+v", o)
	}
	files := f.files()
	for i := range objects {
		name := fmt.Sprintf("lease.%05d", i)
		var got unstructured.Unstructured
		if err := got.UnmarshalJSON(files["resources/leases.coordination.k8s.io/namespaces/"+ns+"/"+name+".json"]); err != nil || got.GetName() != name || got.GetKind() != "Lease" {
			t.Fatalf("%s: %v, %v", name, got.GetName(), err)
		}
	}
}

// All runs of a process share the limit on requests.
func TestRunsShareTheLimitOnRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, two := f.namespace("slow"), f.namespace("slow")
	var requests atomic.Int32
	f.through(backup.Options{QPS: 100, Burst: 1}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		requests.Add(1)
		return next.RoundTrip(request)
	})
	began := time.Now()
	var group sync.WaitGroup
	for i, ns := range []string{one, two} {
		group.Go(func() {
			r := run(ns)
			r.Name = fmt.Sprintf("nightly-%d", i)
			if _, err := backup.Take(t.Context(), f.cluster, f.store, backup.Job{Run: r}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	// Discovery's few requests are not counted: they go past the limit.
	if took, least := time.Since(began), time.Duration(requests.Load()-12)*10*time.Millisecond; took < least {
		t.Errorf("%d requests took %s, at 100 a second they take %s", requests.Load(), took, least)
	}
}

// Case A57, with a real API server: an aggregated API whose server does not exist.
// Not in parallel with other tests, whose backups would warn of it, too.
func TestABrokenAggregatedAPIIsAWarning(t *testing.T) {
	f := newFixture(t)
	ns := f.namespace("aggregated")
	f.configMap(ns, "x", nil)
	services := f.objects.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	_, err := services.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1beta1.metrics.example.com"},
		"spec": map[string]any{
			"group": "metrics.example.com", "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": ns, "name": "nobody"},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	discovers := func() bool {
		_, lists, err := f.typed().Discovery().ServerGroupsAndResources()
		_ = lists
		return err == nil
	}
	settle := func(want bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); discovers() != want; {
			if time.Now().After(deadline) {
				t.Fatalf("discovery works: %v", !want)
			}
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := services.Delete(ctx, "v1beta1.metrics.example.com", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		settle(true)
	})
	settle(false)
	o := f.takeAndPublish(run(ns)).Outcome
	if o.Phase != berth.PhaseCompleted || o.Warnings != 1 || len(f.configMapsOf(ns)) != 1 {
		t.Errorf("the outcome is %+v: %+v", o, f.results())
	}
	if lines := f.results().Warnings.Cluster; len(lines) != 1 || !strings.Contains(lines[0], "metrics.example.com/v1beta1 cannot be discovered") {
		t.Errorf("the warnings are %q", lines)
	}
}

func lease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
