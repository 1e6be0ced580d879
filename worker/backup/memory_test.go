package backup_test

import (
	"crypto/rand"
	"encoding/base64"
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

	"github.com/berth-backup/berth/objectstore"
	"github.com/berth-backup/berth/worker/backup"
)

// Case A53: memory grows with the pools, not with what is backed up. Three backups
// of 70 MB each, eight workers each, at once. Not in parallel with other tests,
// whose memory would count.
func TestMemoryDoesNotGrowWithTheObjects(t *testing.T) {
	// Of 210 MB. The race detector throws half of what is pooled away: without it
	// the heap grows to some 80 MB, most of it from making the objects.
	const objects, size, most = 140, 500_000, 160 << 20
	f := newFixture(t)
	namespace := f.apart("memory")
	f.cluster = f.clusterOf(f.config, backup.Options{Memory: 16 << 20})
	noise := make([]byte, size*3/4)
	_, _ = rand.Read(noise)
	data := map[string]string{"text": base64.StdEncoding.EncodeToString(noise)}
	configMaps := f.typed().CoreV1().ConfigMaps(namespace)
	var group errgroup.Group
	group.SetLimit(4)
	for i := range objects {
		group.Go(func() error {
			_, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("big-%03d", i)}, Data: data}, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	peak := watchHeap(t)
	var backups errgroup.Group
	for i := range 3 {
		store, err := objectstore.Open(t.Context(), "file://"+filepath.ToSlash(t.TempDir()), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		r := run(namespace)
		r.Name, r.ItemBlockWorkerCount = fmt.Sprintf("big-%d", i), 8
		backups.Go(func() error {
			taken, err := backup.Take(t.Context(), f.cluster, store, backup.Job{Run: r})
			if err == nil && taken.Outcome.Progress.Bytes < objects*size {
				err = fmt.Errorf("%+v", taken.Outcome)
			}
			return err
		})
	}
	if err := backups.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := peak(); got > most {
		t.Errorf("the heap grew to %d MB, at most %d MB are right", got>>20, most>>20)
	}
}

// watchHeap gives a function that ends the watch and tells the highest use.
func watchHeap(t *testing.T) func() uint64 {
	t.Helper()
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
	return func() uint64 {
		close(stop)
		group.Wait()
		return highest
	}
}

// An object that is larger than all the memory that there is passes, alone.
func TestAnObjectLargerThanTheMemory(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	namespace := f.apart("large")
	noise := make([]byte, 600_000)
	_, _ = rand.Read(noise)
	for i := range 4 {
		f.configMap(namespace, fmt.Sprintf("large-%d", i), func(o *unstructured.Unstructured) {
			o.Object["data"] = map[string]any{"text": base64.StdEncoding.EncodeToString(noise)}
		})
	}
	f.cluster = f.clusterOf(f.config, backup.Options{Memory: 1 << 20})
	f.takeAndPublish(run(namespace))
	if got := len(f.configMapsOf(namespace)); got != 4 {
		t.Errorf("%d of 4 objects are in the archive", got)
	}
}
