package worker

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/berth-backup/berth"
)

// DispatchStore is what the dispatcher needs of the queue.
type DispatchStore interface {
	// Dispatch admits what may start and marks what may not.
	Dispatch(ctx context.Context, r berth.DispatchRequest) (berth.Dispatched, error)
}

// dispatch dequeues until ctx ends: on every hint, and every recheck interval
// without one. Runs live under alive, which outlasts ctx. One dequeue at a time:
// a second one would only wait for the first one's gate. It begins when the queue
// knows of the worker: else backups would run while others waited for a worker.
func (w *Worker) dispatch(ctx, alive context.Context, introduced <-chan struct{}) {
	w.config.Log.Info("waiting for the cluster's namespaces", "cluster", w.config.Cluster)
	select {
	case <-ctx.Done():
		return
	case <-introduced:
	}
	for ctx.Err() == nil {
		if err := w.dequeue(alive); err != nil {
			w.config.Log.Warn("dequeue", "cluster", w.config.Cluster, "error", err)
		}
		w.await(ctx)
	}
}

// dequeue asks the queue once and starts what it admits. The end of the worker
// does not interrupt it: what is admitted and not taken would cost an attempt.
func (w *Worker) dequeue(alive context.Context) error {
	// Later than this, what it admits could not be trusted any more.
	ctx, cancel := context.WithTimeout(alive, w.config.Lease.TTL-w.config.Lease.Margin)
	defer cancel()
	asked := time.Now()
	done, err := w.store.Dispatch(ctx, berth.DispatchRequest{
		Cluster: w.config.Cluster, Worker: w.config.ID, Want: w.room(), LeaseTTL: w.config.Lease.TTL,
	})
	// What was admitted before an error is ours all the same.
	for _, run := range done.Runs {
		w.config.Log.Info("backup starts", "backup", run.Name, "id", run.ID, "attempt", run.Attempt, "slot", run.Slot,
			"waited", run.ReadyAt.Sub(run.EnqueuedAt).Round(time.Millisecond))
		w.take(alive, run, asked)
	}
	logPassedOver(w.config.Log, done)
	return err
}

// await waits for a hint or, at most, for the recheck interval.
func (w *Worker) await(ctx context.Context) {
	poll := time.NewTimer(outOfStep(w.config.Recheck))
	defer poll.Stop()
	select {
	case <-ctx.Done():
	case <-w.kick:
	case <-poll.C:
	}
}

// outOfStep adds up to a fifth of jitter, so that many processes do not ask in step.
func outOfStep(interval time.Duration) time.Duration {
	return interval + time.Duration(rand.Int64N(int64(interval)/5+1))
}

func logPassedOver(log interface{ Info(string, ...any) }, done berth.Dispatched) {
	for _, p := range done.PassedOver {
		log.Info("backup waits", "backup", p.Name, "for", p.Witness, "namespaces", strings.Join(p.Shared, ","))
	}
	if done.MorePassedOver > 0 {
		log.Info("more backups wait", "backups", done.MorePassedOver)
	}
}
