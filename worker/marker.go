package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/berth-backup/berth"
)

// MarkStore is what the marker needs of the queue.
type MarkStore interface {
	DispatchStore
	// Clusters lists the names of all clusters.
	Clusters(ctx context.Context) ([]string, error)
}

// Marker tells waiting backups what they wait for where no worker does it: it
// dequeues nothing. It runs in the server.
type Marker struct {
	Store MarkStore
	// Interval is how long it waits for a hint, and up to a fifth longer. Default 2s.
	Interval time.Duration
	// Hint, if set, tells that a queue changed.
	Hint <-chan struct{}
	Log  *slog.Logger
}

// Run marks until ctx ends.
func (m Marker) Run(ctx context.Context) {
	if m.Interval == 0 {
		m.Interval = 2 * time.Second
	}
	for {
		if err := m.mark(ctx); err != nil && ctx.Err() == nil {
			m.Log.Warn("mark the queue", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-m.Hint:
		case <-time.After(outOfStep(m.Interval)):
		}
	}
}

func (m Marker) mark(ctx context.Context) error {
	clusters, err := m.Store.Clusters(ctx)
	if err != nil {
		return err
	}
	// One cluster's trouble is not in another one's way.
	var failures []error
	for _, name := range clusters {
		done, err := m.Store.Dispatch(ctx, berth.DispatchRequest{Cluster: name})
		failures = append(failures, err)
		logPassedOver(m.Log, done)
	}
	return errors.Join(failures...)
}
