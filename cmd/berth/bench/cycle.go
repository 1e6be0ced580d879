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

// clientsOfTwo are those of each of two clusters.
const clientsOfTwo = 4

// cyclesOf measures clients that each end a running backup and dequeue: how many
// backups start and end a second. None join the queue meanwhile.
func (b *bench) cyclesOf(clients int) func(context.Context, *queue) error {
	return func(ctx context.Context, q *queue) error {
		return b.cycles(ctx, fmt.Sprintf("cycles_%d", clients), clients, q)
	}
}

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
		if err := b.cycles(ctx, fmt.Sprintf("cycles_of_%d_clusters", len(at)), clientsOfTwo, at...); err != nil {
			return err
		}
	}
	return nil
}

// cycles has so many clients on each of the queues. A fifth of a queue ends at
// most, and as many to warm up, so that it keeps its shape.
func (b *bench) cycles(ctx context.Context, metric string, clients int, queues ...*queue) error {
	most := max(1, queues[0].depth/5)
	warm := func() error { return cycle(ctx, metric, clients, min(most, 12*clients), queues) }
	if err := queues[0].record.warmUp(warm); err != nil {
		return err
	}
	return cycle(ctx, metric, clients, min(most, 10*b.Iterations), queues)
}

func cycle(ctx context.Context, metric string, clients, most int, queues []*queue) error {
	var wg sync.WaitGroup
	done, errs := make([]int, len(queues)), make([]error, len(queues))
	started := time.Now()
	for i, q := range queues {
		wg.Go(func() { done[i], errs[i] = q.cycle(ctx, clients, most) })
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
	stop    chan struct{}
	stopped sync.Once
}

// cycle has clients end and dequeue one cluster's backups until so many have
// ended, or for a while, and says how many did.
func (q *queue) cycle(ctx context.Context, clients, most int) (int, error) {
	c := &cycling{queue: q, running: make(chan berth.Run, berth.MaxConcurrentBackups), stop: make(chan struct{})}
	c.left.Store(int64(most))
	for _, run := range q.seeded.running {
		if !isKept(run) {
			c.running <- run
		}
	}
	timer := time.AfterFunc(cycleTime, c.end)
	defer timer.Stop()
	ended, errs := make([]int, clients), make([]error, clients)
	var wg sync.WaitGroup
	for i := range clients {
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
	return total, errors.Join(errs...)
}

func (c *cycling) end() { c.stopped.Do(func() { close(c.stop) }) }

// client ends one and dequeues, until there have been enough.
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
			done, err := c.store.Dispatch(ctx, c.ask(berth.MaxConcurrentBackups))
			for _, run := range done.Runs {
				c.running <- run
			}
			if err != nil {
				return ended, err
			}
			ended++
		}
	}
}
