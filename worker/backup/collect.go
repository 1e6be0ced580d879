package backup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"
)

// collector brings the objects of a plan into an archive.
type collector struct {
	cluster *Cluster
	plan    plan
	workers int
	archive *archive
	results *results
	meter   *meter

	mu sync.Mutex
	// touched are the namespaces of which an object was taken; kept only where
	// selectors let it decide on the namespace itself.
	touched map[string]bool
}

// collect runs the stages of the plan. A list that fails is an error of the
// results; collect itself fails where the archive cannot be written, the API
// server is away or ctx ends. No goroutine of it outlives it.
func (c *collector) collect(ctx context.Context) error {
	for _, stage := range c.plan.stages {
		if err := c.run(ctx, stage); err != nil {
			return err
		}
	}
	return nil
}

// run reads the listings of one stage, some at a time, while the workers of
// the pool take up what arrives.
func (c *collector) run(ctx context.Context, stage []*listing) error {
	pool, ctx := errgroup.WithContext(ctx)
	work := make(chan *batch, c.workers)
	for range c.workers {
		pool.Go(func() error { return guarded(func() error { return c.work(ctx, work) }) })
	}
	pool.Go(func() error {
		defer close(work)
		lists, ctx := errgroup.WithContext(ctx)
		lists.SetLimit(c.cluster.options.ConcurrentLists)
		for _, l := range stage {
			lists.Go(func() error { return guarded(func() error { return c.list(ctx, l, work) }) })
		}
		return lists.Wait()
	})
	return pool.Wait()
}

// list reads one listing to its end. Only what concerns the whole run is
// returned.
func (c *collector) list(ctx context.Context, l *listing, work chan<- *batch) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	to := &batcher{ctx: ctx, listing: l, to: work, meter: c.meter}
	err := l.read(ctx, c.cluster, to)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errNoAnswer):
		return fmt.Errorf("list %s: %w", l, err)
	case err != nil && statusOf(err) == http.StatusNotFound && !c.cluster.serves(ctx, l.resource):
		// Its objects went with it: nothing is missing.
		c.results.warning(l.namespace, fmt.Sprintf("list %s: the cluster stopped serving it while the backup was taken", l))
	case err != nil:
		c.results.error(l.namespace, fmt.Sprintf("list %s: %v", l, err))
	}
	// Nothing more comes, whatever the server promised.
	to.about(page{})
	return to.flush()
}

func (c *collector) work(ctx context.Context, work <-chan *batch) error {
	for {
		select {
		case b, more := <-work:
			if !more {
				return nil
			}
			if err := c.takeUp(ctx, b); err != nil {
				return err
			}
			b.free()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// takeUp brings the objects of a batch into the archive.
func (c *collector) takeUp(ctx context.Context, b *batch) error {
	done, skipped, bytes := 0, 0, int64(0)
	err := b.objects(func(raw []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		size, taken, err := c.takeUpObject(b.listing, raw)
		if taken {
			done++
			bytes += size
		} else {
			skipped++
		}
		return err
	})
	c.meter.move(-skipped, done, bytes)
	return err
}

// takeUpObject archives one object, unless it is not wanted or was met before.
// An object that cannot be archived is an error of the results.
func (c *collector) takeUpObject(l *listing, raw []byte) (size int64, taken bool, err error) {
	h, err := headOf(raw)
	if err != nil {
		c.results.error(l.namespace, fmt.Sprintf("read an object of %s: %v", l, err))
		return 0, false, nil
	}
	if !c.plan.wants(l.resource, h, c.isTouched) || !l.take(h.key()) {
		return 0, false, nil
	}
	plain, versioned, err := paths(l.resource, h)
	if err != nil {
		c.results.error(h.namespace, fmt.Sprintf("archive %s %s: %v", l.resource, h.key(), err))
		return 0, false, nil
	}
	start := opening(l.resource, h)
	if err := c.archive.add(start, raw[1:], plain, versioned); err != nil {
		return 0, false, err
	}
	l.written(h.key())
	if len(c.plan.selectors) > 0 && h.namespace != "" {
		c.touch(h.namespace)
	}
	return int64(len(start) + len(raw) - 1), true, nil
}

func (c *collector) touch(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.touched == nil {
		c.touched = map[string]bool{}
	}
	c.touched[namespace] = true
}

func (c *collector) isTouched(namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.touched[namespace]
}
