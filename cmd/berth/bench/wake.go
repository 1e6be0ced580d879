package bench

import (
	"context"
	"errors"
	"time"

	"github.com/berth-backup/berth"
)

// worker measures a worker, while another process, a store of its own, enqueues
// and ends backups: from the start of the enqueue, or of the end that frees a
// place, to the return of the dequeue that committed the admission.
func (b *bench) worker(ctx context.Context, q *queue) error {
	// What runs is not the worker's: it makes room.
	if err := q.clear(ctx); err != nil {
		return err
	}
	d, err := q.startWorker(ctx)
	if err != nil {
		return err
	}
	err = q.record.warmUp(func() error {
		return errors.Join(q.wakes(ctx, d, b.warmUps()), q.turnarounds(ctx, d, b.warmUps()))
	})
	return errors.Join(err, q.wakes(ctx, d, b.Iterations), q.turnarounds(ctx, d, b.Iterations), d.stop())
}

// clear ends all that runs and is not kept; those that ask for the same join the queue.
func (q *queue) clear(ctx context.Context) error {
	for {
		run, found := q.oldest()
		if !found {
			return nil
		}
		if err := q.store.Finish(ctx, run, outcome()); err != nil {
			return err
		}
		if _, err := q.store.Enqueue(ctx, q.next(run.Spec)); err != nil {
			return err
		}
	}
}

// wakes measures the wake-up, where a place is free.
func (q *queue) wakes(ctx context.Context, d *dispatcher, n int) error {
	if q.shape.waking == nil {
		return nil
	}
	for range n {
		d.quiet()
		request := q.next(berth.Spec{IncludedNamespaces: q.shape.waking})
		started := time.Now()
		if _, err := q.store.Enqueue(ctx, request); err != nil {
			return err
		}
		admitted, run, err := d.admission(ctx, request.Name)
		if err != nil {
			return err
		}
		q.record.note("wake_up", admitted.Sub(started))
		if err := q.end(ctx, d, run); err != nil {
			return err
		}
		d.engine.let(run)
	}
	return nil
}

// end ends a backup of the worker's from outside.
func (q *queue) end(ctx context.Context, d *dispatcher, run berth.Run) error {
	return errors.Join(d.engine.begun(ctx, run), q.store.Finish(ctx, run, outcome()))
}

// turnarounds measures how soon a place that becomes free is taken, where work
// waits for it.
func (q *queue) turnarounds(ctx context.Context, d *dispatcher, n int) error {
	if q.depth == 0 {
		return nil
	}
	for range n {
		d.quiet()
		q.running = append(q.running, d.take()...)
		run, found := q.oldest()
		if !found {
			return errNothingRuns
		}
		if err := d.engine.begun(ctx, run); err != nil {
			return err
		}
		started := time.Now()
		if err := q.store.Finish(ctx, run, outcome()); err != nil {
			return err
		}
		admitted, err := d.next(ctx)
		if err != nil {
			return err
		}
		if !admitted.IsZero() {
			q.record.note("slot_turnaround", admitted.Sub(started))
		}
		d.engine.let(run)
		if _, err := q.store.Enqueue(ctx, q.next(run.Spec)); err != nil {
			return err
		}
	}
	return nil
}
