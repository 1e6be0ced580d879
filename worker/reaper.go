package worker

import (
	"context"
	"log/slog"
	"time"
)

// ReapStore is what the reaper needs of the queue.
type ReapStore interface {
	// Reap takes backups whose lease ran out more than grace ago from their
	// workers and says how many there were.
	Reap(ctx context.Context, grace time.Duration) (int, error)
}

// Reaper puts backups back into the queue whose worker went silent. It runs in
// every process; two at once take turns at the gate.
type Reaper struct {
	Store ReapStore
	// Interval is how often it looks. Default 5s.
	Interval time.Duration
	// Grace is how long after the end of a lease it waits. Default 15s.
	Grace time.Duration
	Log   *slog.Logger
}

// Run reaps until ctx ends.
func (r Reaper) Run(ctx context.Context) {
	if r.Interval == 0 {
		r.Interval = 5 * time.Second
	}
	if r.Grace == 0 {
		r.Grace = Lease{}.withDefaults().Grace
	}
	tick := time.NewTicker(r.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		reaped, err := r.Store.Reap(ctx, r.Grace)
		if reaped > 0 {
			r.Log.Warn("backups lost their worker", "backups", reaped)
		}
		if err != nil && ctx.Err() == nil {
			r.Log.Warn("reap", "error", err)
		}
	}
}
