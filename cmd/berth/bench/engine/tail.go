package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	berthdomain "github.com/berth-backup/berth"
	"github.com/berth-backup/berth/objectstore"
	"github.com/berth-backup/berth/worker/backup"
)

// measureTail takes the same backup with the engine alone, in this process, which
// tells of each item: whether the last are as fast as the first.
func (b *bench) measureTail(ctx context.Context, w work, namespaces []string) (err error) {
	folder, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	store, err := objectstore.Open(ctx, "file://"+folder, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	cluster, err := backup.NewCluster(b.Config, backup.Options{})
	if err != nil {
		return err
	}
	var times samples
	var ratios []float64
	items := 0
	for round := range b.Rounds {
		progress := &timeline{}
		began := time.Now()
		done, err := backup.Take(ctx, cluster, store, backup.Job{
			Run: berthdomain.Run{
				ID: uuid.Must(uuid.NewV7()), Name: fmt.Sprintf("%s-%d", w.name, round), Cluster: berthdomain.DefaultCluster, Attempt: 1, Fence: 1,
				Spec: berthdomain.Spec{IncludedNamespaces: namespaces}, Contents: berthdomain.Contents{Names: namespaces}, ItemBlockWorkerCount: workers,
			},
			Progress: progress.note,
		})
		if err != nil {
			return err
		}
		times = append(times, time.Since(began))
		items = done.Outcome.Progress.ItemsBackedUp
		ratios = append(ratios, progress.tail(items))
	}
	best := ratios[0]
	for _, ratio := range ratios {
		best = min(best, ratio)
	}
	return b.Cell(Cell{Work: w.name, System: "engine", Items: items, Seconds: times.spread(), Tail: round(best)})
}

// timeline is when each item was done.
type timeline struct {
	mu sync.Mutex
	at []time.Time
}

func (t *timeline) note(p berthdomain.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for now := time.Now(); len(t.at) < p.ItemsBackedUp; {
		t.at = append(t.at, now)
	}
}

// tail is the time of an item in the last tenth over that in the first half.
func (t *timeline) tail(items int) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	half, tenth := items/2, items/10
	first := t.at[half-1].Sub(t.at[0]).Seconds() / float64(half)
	last := t.at[items-1].Sub(t.at[items-1-tenth]).Seconds() / float64(tenth)
	return last / first
}

// archiveSize is how long the archive of a backup is.
func archiveSize(ctx context.Context, storageURL, name, system string) (int64, error) {
	prefix := berthdomain.DefaultCluster
	if system == "velero" {
		prefix = veleroPrefix
	}
	store, err := objectstore.Open(ctx, storageURL, prefix)
	if err != nil {
		return 0, err
	}
	size, err := store.Size(ctx, name, backup.ObjectName(name, backup.ArtefactArchive))
	return size, errors.Join(err, store.Close())
}
