package worker

import (
	"context"
	"time"

	"github.com/berth-backup/berth"
)

// HeartbeatStore is what the heartbeat needs of the queue.
type HeartbeatStore interface {
	// Renew says that the worker is alive and what it has room for, prolongs its
	// leases and tells which of them are lost.
	Renew(ctx context.Context, h berth.Heartbeat) (lost []berth.Run, err error)
}

// heartbeat renews all leases of this process in one statement, every renewal
// interval, until ctx ends, and closes introduced when the queue first heard of
// it. A renewal that fails is tried again sooner; the holds end by themselves if
// none succeeds in time.
func (w *Worker) heartbeat(ctx context.Context, introduced chan<- struct{}) {
	retry := w.config.Lease.Renew / 10
	known, draining := false, w.draining
	for {
		wait := w.config.Lease.Renew
		err := w.renew(ctx)
		if err != nil && ctx.Err() == nil {
			w.config.Log.Warn("renew the leases", "error", err)
			wait = retry
		}
		if err == nil && !known {
			known = true
			close(introduced)
		}
		select {
		case <-ctx.Done():
			return
		case <-draining:
			draining = nil // said at once, and as often as anything from then on
		case <-time.After(wait):
		}
	}
}

func (w *Worker) renew(ctx context.Context) error {
	holds := w.heldRuns()
	runs := make([]berth.Run, len(holds))
	for i, h := range holds {
		runs[i] = h.run
	}
	asked := time.Now()
	// A renewal that hangs is no renewal: ask again while the leases last.
	bounded, cancel := context.WithTimeout(ctx, w.config.Lease.Renew)
	defer cancel()
	lost, err := w.store.Renew(bounded, berth.Heartbeat{
		Cluster: w.config.Cluster, Worker: w.config.ID, MaxBackups: w.maxBackups(), LeaseTTL: w.config.Lease.TTL, Held: runs,
	})
	if err != nil {
		return err
	}
	gone := make(map[int64]bool, len(lost))
	for _, run := range lost {
		gone[run.Fence] = true
	}
	for _, h := range holds {
		if gone[h.run.Fence] {
			h.stop(berth.ErrLeaseLost)
			continue
		}
		h.extend(asked.Add(w.config.Lease.TTL - w.config.Lease.Margin))
	}
	return nil
}
