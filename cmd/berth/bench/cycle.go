package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-backup/berth"
)

// cycleTime is how long the cycles of one measure go on at most.
const cycleTime = 10 * time.Second

const (
	// clientsOfTwo are those of each of two clusters.
	clientsOfTwo = 4
	// runsOfWorker are those that a worker has at once.
	runsOfWorker = 8
)

// cyclesOf measures clients that each end a running backup and dequeue: how many
// backups start and end a second. None join the queue meanwhile.
func (b *bench) cyclesOf(clients int) func(context.Context, *queue) error {
	return func(ctx context.Context, q *queue) error {
		return b.cycles(ctx, fmt.Sprintf("cycles_%d", clients), dequeuing(clients), q)
	}
}

// cyclesOfWorker measures the same as one worker process does it: several runs
// end at once, and each end wakes the one dispatcher, which admits for all that
// ended meanwhile.
func (b *bench) cyclesOfWorker(ctx context.Context, q *queue) error {
	return b.cycles(ctx, "cycles_worker", crew{clients: runsOfWorker, oneDispatcher: true}, q)
}

// crew is who works on one queue.
type crew struct {
	// clients end runs, and each dequeues after it, but where one does for all.
	clients       int
	oneDispatcher bool
}

func dequeuing(clients int) crew { return crew{clients: clients} }

// twoClusters measures the cycles of one cluster, then of two behind different
// gates at once: of both together.
func (b *bench) twoClusters(ctx context.Context, s shape, depth int, r *record) error {
	name, err := b.scratch.migrated(ctx)
	if err != nil {
		return err
	}
	var queues []*queue
	defer func() {
		for _, q := range queues {
			q.close()
		}
	}()
	for _, cluster := range []string{clusterName, otherCluster} {
		q, err := b.open(ctx, seeded{name: name, cluster: cluster}, s, depth, r)
		if err != nil {
			return err
		}
		queues = append(queues, q)
		err = r.warmUp(func() error { return errors.Join(q.fill(ctx), q.holdRuns(ctx), q.vacuum(ctx)) })
		if err != nil {
			return err
		}
	}
	for _, at := range [][]*queue{queues[:1], queues} {
		if err := b.cycles(ctx, fmt.Sprintf("cycles_of_%d_clusters", len(at)), dequeuing(clientsOfTwo), at...); err != nil {
			return err
		}
	}
	return nil
}

// cycles has a crew on each of the queues. A fifth of a queue ends at
// most, and as many to warm up, so that it keeps its shape.
func (b *bench) cycles(ctx context.Context, metric string, of crew, queues ...*queue) error {
	most := max(1, queues[0].depth/5)
	warm := func() error { return cycle(ctx, metric, of, min(most, 12*of.clients), queues) }
	if err := queues[0].record.warmUp(warm); err != nil {
		return err
	}
	return cycle(ctx, metric, of, min(most, 10*b.Iterations), queues)
}

func cycle(ctx context.Context, metric string, of crew, most int, queues []*queue) error {
	var wg sync.WaitGroup
	done, errs := make([]int, len(queues)), make([]error, len(queues))
	started := time.Now()
	for i, q := range queues {
		wg.Go(func() { done[i], errs[i] = q.cycle(ctx, of, most) })
	}
	wg.Wait()
	took, total := time.Since(started), 0
	for _, n := range done {
		total += n
	}
	queues[0].record.rate(Cell{Metric: metric, N: total, PerSecond: rate(total, took)})
	return errors.Join(errs...)
}

// cycling is what the clients of one cluster share.
type cycling struct {
	*queue
	// running holds what may be ended; each client takes one from it.
	running chan berth.Run
	left    atomic.Int64
	// kick wakes the one dispatcher; nil where each client dequeues itself.
	kick    chan struct{}
	stop    chan struct{}
	stopped sync.Once
}

// cycle has a crew end and dequeue one cluster's backups until so many have
// ended, or for a while, and says how many did.
func (q *queue) cycle(ctx context.Context, of crew, most int) (int, error) {
	c := &cycling{queue: q, running: make(chan berth.Run, berth.MaxConcurrentBackups), stop: make(chan struct{})}
	c.left.Store(int64(most))
	for _, run := range q.seeded.running {
		if !isKept(run) {
			c.running <- run
		}
	}
	timer := time.AfterFunc(cycleTime, c.end)
	defer timer.Stop()
	var wg sync.WaitGroup
	var dispatcher error
	if of.oneDispatcher {
		c.kick = make(chan struct{}, 1)
		wg.Go(func() {
			defer c.end()
			dispatcher = c.dispatch(ctx)
		})
	}
	ended, errs := make([]int, of.clients), make([]error, of.clients)
	for i := range of.clients {
		wg.Go(func() {
			defer c.end()
			ended[i], errs[i] = c.client(ctx)
		})
	}
	wg.Wait()
	close(c.running)
	q.seeded.running = slices.DeleteFunc(q.seeded.running, func(run berth.Run) bool { return !isKept(run) })
	for run := range c.running {
		q.seeded.running = append(q.seeded.running, run)
	}
	total := 0
	for _, n := range ended {
		total += n
	}
	return total, errors.Join(append(errs, dispatcher)...)
}

func (c *cycling) end() { c.stopped.Do(func() { close(c.stop) }) }

// client ends one and has the next dequeued, until there have been enough.
func (c *cycling) client(ctx context.Context) (ended int, err error) {
	for {
		select {
		case <-ctx.Done():
			return ended, ctx.Err()
		case <-c.stop:
			return ended, nil
		case run := <-c.running:
			if c.left.Add(-1) < 0 {
				c.running <- run
				return ended, nil
			}
			if err := c.store.Finish(ctx, run, outcome()); err != nil {
				return ended, err
			}
			ended++
			if c.kick == nil {
				err = c.dequeue(ctx)
			} else {
				c.wake()
			}
			if err != nil {
				return ended, err
			}
		}
	}
}

// dispatch dequeues as often as it is woken.
func (c *cycling) dispatch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.stop:
			return nil
		case <-c.kick:
			if err := c.dequeue(ctx); err != nil {
				return err
			}
		}
	}
}

func (c *cycling) wake() {
	select {
	case c.kick <- struct{}{}:
	default: // it is to dequeue already
	}
}

func (c *cycling) dequeue(ctx context.Context) error {
	done, err := c.store.Dispatch(ctx, c.ask(berth.MaxConcurrentBackups))
	for _, run := range done.Runs {
		c.running <- run
	}
	return err
}
