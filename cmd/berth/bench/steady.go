package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/berth-backup/berth"
)

// readBudget is how long one reader is measured: those that cost as much as the
// queue is long would take all day.
const readBudget = 10 * time.Second

// steady measures one client on a queue that stays as it is: the oldest running
// backup ends, the next one starts, one that asks for the same joins the queue
// and is looked at. Timed is each call of the store, begin to commit.
func (b *bench) steady(ctx context.Context, q *queue) error {
	bare, err := q.calibration(ctx)
	if err != nil {
		return err
	}
	defer bare.close(ctx)
	turns := func(n int) error {
		for range n {
			if err := q.turn(ctx); err != nil {
				return err
			}
			if err := bare.measure(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if err := q.record.warmUp(func() error { return turns(b.warmUps()) }); err != nil {
		return err
	}
	if err := turns(b.Iterations); err != nil {
		return err
	}
	// Read at the depth that the cell names: the bulk makes the queue longer.
	if err := b.reads(ctx, q); err != nil {
		return err
	}
	if err := b.cancels(ctx, q); err != nil {
		return err
	}
	return b.bulk(ctx, q)
}

func (q *queue) turn(ctx context.Context) error {
	run, found := q.oldest()
	if !found {
		return errNothingRuns
	}
	if err := q.record.clock("leave", func() error { return q.store.Finish(ctx, run, outcome()) }); err != nil {
		return err
	}
	if err := q.dequeue(ctx); err != nil {
		return err
	}
	err := q.record.clock("enqueue", func() error {
		queued, err := q.store.Enqueue(ctx, q.next(run.Spec))
		q.queued = append(q.queued, queued.ID)
		return err
	})
	if err != nil {
		return err
	}
	// One that nobody has looked at, and no place for it: it learns what it waits for.
	if err := q.record.clock("dequeue_blocked", func() error { return q.admitsNone(ctx) }); err != nil {
		return err
	}
	// Nothing to look at.
	return q.record.clock("dequeue_idle", func() error { return q.admitsNone(ctx) })
}

// errNothingRuns: a queue is not of its shape.
var errNothingRuns = errors.New("nothing runs, and something should")

// oldest takes the running backup that has run the longest.
func (q *queue) oldest() (_ berth.Run, found bool) {
	at := slices.IndexFunc(q.running, func(run berth.Run) bool { return !isKept(run) })
	if at < 0 {
		return berth.Run{}, false
	}
	run := q.running[at]
	q.running = slices.Delete(q.running, at, at+1)
	return run, true
}

// dequeue is timed where it admits one. One that left may have been in nobody's
// way who may start now.
func (q *queue) dequeue(ctx context.Context) error {
	started := time.Now()
	done, err := q.store.Dispatch(ctx, q.ask(1))
	if err != nil {
		return err
	}
	if len(done.Runs) == 1 {
		q.record.note("dequeue", time.Since(started))
	}
	q.running = append(q.running, done.Runs...)
	return nil
}

func (q *queue) admitsNone(ctx context.Context) error {
	done, err := q.store.Dispatch(ctx, q.ask(0))
	if err == nil && len(done.Runs) > 0 {
		err = fmt.Errorf("%d backups were admitted where none was wanted", len(done.Runs))
	}
	return err
}

// cancels measures cancelling one that waits, anywhere in the queue; one that
// asks for the same joins it.
func (b *bench) cancels(ctx context.Context, q *queue) error {
	random := rand.New(rand.NewPCG(2, 0))
	for _, at := range random.Perm(len(q.queued))[:min(b.Iterations, len(q.queued)/5)] {
		waiting, err := q.store.Backup(ctx, q.queued[at])
		if err != nil {
			return err
		}
		// Without the wide ones the queue is of another shape.
		if waiting.Phase != berth.PhaseQueued || waiting.Namespaces.All {
			continue
		}
		err = q.record.clock("cancel", func() error {
			_, err := q.store.Cancel(ctx, waiting.ID, "measured")
			return err
		})
		if err != nil {
			return err
		}
		if _, err := q.store.Enqueue(ctx, q.next(waiting.Spec)); err != nil {
			return err
		}
		if err := q.admitsNone(ctx); err != nil {
			return err
		}
	}
	return nil
}

const bulkSize = 1000

// pageSize is that of the API's first page.
const pageSize = 100

// bulk measures enqueueing many at once: how many a second.
func (b *bench) bulk(ctx context.Context, q *queue) error {
	var took samples
	for range min(b.slow(), 10) {
		requests := make([]berth.Request, min(bulkSize, q.depth))
		for i := range requests {
			requests[i] = q.next(q.shape.request(1, q.depth).Spec)
		}
		started := time.Now()
		if _, err := q.store.EnqueueMany(ctx, q.cluster, requests); err != nil {
			return err
		}
		took = append(took, time.Since(started))
	}
	c := took.cell("enqueue_bulk")
	c.PerSecond = rate(len(took)*min(bulkSize, q.depth), took.sum())
	q.record.rate(c)
	return nil
}

// reads measures what people look at: the last one of the queue with its
// position and what it waits for, and the first page of the queue.
func (b *bench) reads(ctx context.Context, q *queue) error {
	last := q.queued[len(q.queued)-1]
	return errors.Join(
		q.read(ctx, "position", b.Iterations, func() error {
			_, err := q.store.Backup(ctx, last)
			return err
		}),
		q.read(ctx, "queue_page", b.slow(), func() error {
			_, err := q.store.Queue(ctx, berth.QueueOptions{Cluster: q.cluster, Limit: pageSize})
			return err
		}),
	)
}

// read measures a reader for its budget at most. One that does not come to an
// end in time is told as such, and fails nothing else.
func (q *queue) read(ctx context.Context, metric string, n int, do func() error) error {
	until := time.Now().Add(readBudget)
	for range n {
		if err := q.record.clock(metric, do); err != nil {
			if ctx.Err() != nil {
				return err
			}
			q.record.rate(Cell{Metric: metric, Error: err.Error()})
			return nil
		}
		if time.Now().After(until) {
			break
		}
	}
	return nil
}

// leaveWatched measures the end of a backup that nearly all others wait for.
func (b *bench) leaveWatched(ctx context.Context, q *queue) error {
	err := q.record.warmUp(func() error { return errors.Join(q.turn(ctx), q.turn(ctx), q.turn(ctx)) })
	if err != nil {
		return err
	}
	at := slices.IndexFunc(q.running, isKept)
	return q.record.clock("leave_watched", func() error { return q.store.Finish(ctx, q.running[at], outcome()) })
}

// releaseAll measures how soon all who waited for one that ended know what they
// wait for now: how many a second.
func (b *bench) releaseAll(ctx context.Context, q *queue) error {
	if err := b.leaveWatched(ctx, q); err != nil {
		return err
	}
	return q.markAll(ctx, "release_all")
}
