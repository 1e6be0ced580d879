package backup_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-backup/berth/internal/devenv"
	"github.com/berth-backup/berth/objectstore"
	"github.com/berth-backup/berth/worker/backup"
)

// BenchmarkTake measures one backup of 10,000 ConfigMaps of 1.5 kB in one
// namespace beside the floor, a bare paged list of the same objects. peak-MB is
// the largest live heap with what was not collected yet.
func BenchmarkTake(b *testing.B) {
	const objects = 10_000
	k := devenv.TestKubernetes(b)
	namespace := devenv.TestNamespace(b, k, "bench")
	client, err := dynamic.NewForConfig(k.Config)
	if err != nil {
		b.Fatal(err)
	}
	configMaps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(16)
	for i := range objects {
		group.Go(func() error {
			text := ""
			for j := range 1500 / 30 {
				text += fmt.Sprintf("key-%06d: value-%012x\n", i, i*7919+j*104729)
			}
			_, err := configMaps.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"text": text[:1500]},
				"metadata": map[string]any{"name": fmt.Sprintf("config-%05d", i)},
			}}, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	r := run(namespace)
	r.Spec.IncludedResources = []string{"configmaps"}

	b.Run("list", func(b *testing.B) {
		typed, err := kubernetes.NewForConfig(k.Config)
		if err != nil {
			b.Fatal(err)
		}
		defer peak(b)()
		for b.Loop() {
			options, seen := metav1.ListOptions{Limit: 500}, 0
			for {
				list, err := typed.CoreV1().ConfigMaps(namespace).List(b.Context(), options)
				if err != nil {
					b.Fatal(err)
				}
				seen += len(list.Items)
				if options.Continue = list.Continue; options.Continue == "" {
					break
				}
			}
			if seen != objects {
				b.Fatalf("%d objects listed", seen)
			}
		}
	})
	b.Run("take", func(b *testing.B) {
		cluster, err := backup.NewCluster(k.Config, backup.Options{})
		if err != nil {
			b.Fatal(err)
		}
		stores := make([]*objectstore.Store, 0, 100)
		defer peak(b)()
		for b.Loop() {
			store, err := objectstore.Open(b.Context(), "file://"+filepath.ToSlash(b.TempDir()), "")
			if err != nil {
				b.Fatal(err)
			}
			stores = append(stores, store)
			taken, err := backup.Take(b.Context(), cluster, store, backup.Job{Run: r})
			if err != nil {
				b.Fatal(err)
			}
			if err := taken.Publish(b.Context(), rowOf(r, taken.Outcome), "velero"); err != nil {
				b.Fatal(err)
			}
			if taken.Outcome.Progress.ItemsBackedUp != objects {
				b.Fatalf("%+v", taken.Outcome)
			}
			b.ReportMetric(float64(taken.Artefacts[1].Size)/1e6, "archive-MB")
		}
		for _, s := range stores {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		}
	})
}

// peak samples the heap until the function that it returns is called.
func peak(b *testing.B) func() {
	runtime.GC()
	stop := make(chan struct{})
	var group sync.WaitGroup
	var highest uint64
	group.Go(func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				metrics.Read(sample)
				highest = max(highest, sample[0].Value.Uint64())
			case <-stop:
				return
			}
		}
	})
	return func() {
		close(stop)
		group.Wait()
		b.ReportMetric(float64(highest)/1e6, "peak-MB")
	}
}

// BenchmarkTakeSmall measures an unfiltered backup of a namespace of 20
// ConfigMaps: mostly the lists of kinds of which it has none.
func BenchmarkTakeSmall(b *testing.B) {
	k := devenv.TestKubernetes(b)
	namespace := devenv.TestNamespace(b, k, "small")
	client, err := kubernetes.NewForConfig(k.Config)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 20 {
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("config-%02d", i)}}
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(b.Context(), configMap, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	cluster, err := backup.NewCluster(k.Config, backup.Options{})
	if err != nil {
		b.Fatal(err)
	}
	store, err := objectstore.Open(b.Context(), "file://"+filepath.ToSlash(b.TempDir()), "")
	if err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		r := run(namespace)
		r.Name = fmt.Sprintf("small-%d", n)
		taken, err := backup.Take(b.Context(), cluster, store, backup.Job{Run: r})
		if err != nil {
			b.Fatal(err)
		}
		if err := taken.Publish(b.Context(), rowOf(r, taken.Outcome), "velero"); err != nil {
			b.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		b.Error(err)
	}
}
