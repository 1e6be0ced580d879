package backup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/berth-backup/berth"
)

// collector brings the objects of a plan into an archive.
type collector struct {
	cluster *Cluster
	run     berth.Run
	plan    plan
	workers int
	pool    *pool
	budget  *budget
	archive *archive
	results *results
	meter   *meter
	related *related
	pods    PodLog
	// lease is the context of the right to take this backup: what has to be done
	// after the rest has failed is done under it.
	lease      context.Context
	hookCounts hookCounts
	// volumes are those of claims, classes the PriorityClasses of pods, by key:
	// kept for what is backed up in groups.
	volumes, classes map[string]string

	mu sync.Mutex
	// touched are the namespaces of which an object was taken; kept only where
	// selectors let it decide on the namespace itself.
	touched map[string]bool
	// shelf are objects that wait until it is known what belongs together.
	shelf []*batch
}

// collect runs the workers of the pool and feeds them. A list that fails is an
// error of the results; collect itself fails where the archive cannot be written,
// the API server is away or ctx ends. No goroutine of it outlives it.
func (c *collector) collect(ctx context.Context) error {
	defer c.cluster.enter(c)()
	defer func() {
		for _, b := range c.emptyShelf() {
			b.free()
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	for range c.workers {
		group.Go(func() error { return guarded(func() error { return c.work(ctx) }) })
	}
	group.Go(func() error {
		defer close(c.pool.blocks)
		return guarded(func() error { return c.feed(ctx) })
	})
	return group.Wait()
}

// feed gives the workers what is to be backed up: first pods and claims, those
// that belong together and have hooks or an order in blocks of their own; then
// everything else as it is listed, then what that needs, and last, where
// selectors decide on them, the namespaces.
func (c *collector) feed(ctx context.Context) error {
	formed, err := c.formGroups(ctx)
	if err != nil {
		return err
	}
	if err := c.backUpGroups(ctx, formed.groups); err != nil {
		return err
	}
	if err := c.unshelve(ctx); err != nil {
		return err
	}
	if err := c.stream(ctx, c.plan.objects); err != nil {
		return err
	}
	for _, key := range formed.pods {
		c.related.want(resourcePods, key, "a claim of the backup")
	}
	for _, key := range formed.claims {
		c.related.want(resourceClaims, key, "a pod or a claim of the backup")
	}
	if err := c.takeRelated(ctx); err != nil {
		return err
	}
	return c.stream(ctx, c.plan.namespaceObjects)
}

func (c *collector) backUpGroups(ctx context.Context, groups []group) error {
	for _, b := range c.blocksOf(groups) {
		c.meter.expect(len(b.items))
		if err := c.pool.submit(ctx, b); err != nil {
			return err
		}
	}
	return c.pool.drain(ctx)
}

// stream reads listings, some at a time, while the workers take up what arrives,
// and returns when all of it is taken up.
func (c *collector) stream(ctx context.Context, all []*listing) error {
	lists, listing := errgroup.WithContext(ctx)
	lists.SetLimit(c.cluster.options.ConcurrentLists)
	for _, l := range all {
		lists.Go(func() error { return guarded(func() error { return c.list(listing, l) }) })
	}
	if err := lists.Wait(); err != nil {
		return err
	}
	return c.pool.drain(ctx)
}

// list reads one listing to its end. Only what concerns the whole run is
// returned.
func (c *collector) list(ctx context.Context, l *listing) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	to := &batcher{ctx: ctx, collector: c, listing: l}
	defer to.drop()
	if err := c.sayUnlisted(ctx, l, l.read(ctx, c.cluster, to)); err != nil {
		return err
	}
	// Nothing more comes, whatever the server promised.
	to.about(page{})
	return to.flush()
}

// sayUnlisted notes in the results why a listing ended early. It returns what
// concerns the whole run.
func (c *collector) sayUnlisted(ctx context.Context, l *listing, err error) error {
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
	return nil
}

// takeUpListed archives one object of a listing.
func (c *collector) takeUpListed(l *listing, raw []byte) (size int64, taken bool, err error) {
	if l.only != nil {
		if h, err := headOf(raw); err == nil && !l.only(h, raw) {
			return 0, false, nil
		}
	}
	return c.takeUpObject(l.resource, raw, l.chosen)
}

// takeUpObject archives one object, unless it is not wanted or was met before.
// An object that cannot be archived is an error of the results. chosen asks for
// one that the selectors choose.
func (c *collector) takeUpObject(r resource, raw []byte, chosen bool) (size int64, taken bool, err error) {
	h, err := headOf(raw)
	if err != nil {
		c.results.error("", fmt.Sprintf("read an object of %s: %v", r, err))
		return 0, false, nil
	}
	ledger := c.plan.ledgers.ledger(r)
	if !c.plan.wants(r, h, c.isTouched) || chosen && !c.plan.selects(h) || !ledger.take(h.key()) {
		return 0, false, nil
	}
	plain, versioned, err := paths(r, h)
	if err != nil {
		c.results.error(h.namespace, fmt.Sprintf("archive %s %s: %v", r, h.key(), err))
		return 0, false, nil
	}
	start := opening(r, h)
	if err := c.archive.add(start, raw[1:], plain, versioned); err != nil {
		return 0, false, err
	}
	ledger.written(h.key())
	if len(c.plan.selectors) > 0 && h.namespace != "" {
		c.touch(h.namespace)
	}
	if err := c.relate(r, h, raw); err != nil {
		c.results.warning(h.namespace, fmt.Sprintf("find what %s %s needs: %v", r, h.key(), err))
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
