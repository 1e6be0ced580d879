package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// formGroups finds out which pods and claims belong together. Each kind is listed
// once: of an object that may be part of a group a record is kept, and its body
// is shelved until that is known; any other object is archived at once.
func (c *collector) formGroups(ctx context.Context) (formation, error) {
	pods, err := gather(ctx, c, resourcePods, c.recordPod)
	if err != nil {
		return formation{}, err
	}
	hooked := slices.ContainsFunc(pods, func(p podRecord) bool { return p.hooked })
	if !hooked && len(c.plan.ordered) == 0 && len(c.plan.selectors) == 0 {
		// Nothing joins anything: the claims are listed among the other objects.
		c.plan.objects = slices.Concat(c.plan.claimObjects, c.plan.objects)
		return formation{}, nil
	}
	claims, err := gather(ctx, c, resourceClaims, c.recordClaim)
	if err != nil {
		return formation{}, err
	}
	for _, claim := range claims {
		if claim.volume != "" {
			c.volumes[claim.key] = claim.volume
		}
	}
	for _, pod := range pods {
		if pod.priorityClass != "" {
			c.classes[pod.key] = pod.priorityClass
		}
	}
	return form(pods, claims, c.plan.ordered), nil
}

// placement says what becomes of an object that is listed while groups are formed.
type placement int

const (
	// atOnce objects are archived from the list.
	atOnce placement = iota
	// shelved ones wait, with their body, until the groups are known.
	shelved
	// readLater ones are read when their block is backed up.
	readLater
)

// gather lists a namespaced resource in the namespaces of the backup, without the
// selectors, and keeps what look says of each object; false for nothing. A
// resource that the backup does not take has no relations.
func gather[T any](ctx context.Context, c *collector, name string, look func(h head, raw []byte) (T, bool, placement)) ([]T, error) {
	r, chosen := c.plan.chosen[name]
	if !chosen {
		return nil, nil
	}
	var mu sync.Mutex
	var all []T
	lists, ctx := errgroup.WithContext(ctx)
	lists.SetLimit(c.cluster.options.ConcurrentLists)
	for _, place := range c.plan.placesOf(r) {
		l := newListing(r, place, []string{""}, c.plan.ledgers)
		l.chosen = true
		sink := &sorter{batcher: batcher{ctx: ctx, collector: c, listing: l}}
		sink.look = func(raw []byte) placement {
			h, err := headOf(raw)
			if err != nil || !c.plan.wants(r, h, nil) {
				return atOnce // whoever archives it says what is wrong, or leaves it out
			}
			record, kept, to := look(h, raw)
			if kept {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, record)
			}
			return to
		}
		lists.Go(func() error { return guarded(func() error { return sink.read(ctx) }) })
	}
	return all, lists.Wait()
}

// sorter is the sink of a listing whose objects are not all archived at once.
type sorter struct {
	batcher
	look func(raw []byte) placement
	// shelf is the batch of shelved objects that is being filled.
	shelf *batch
}

func (s *sorter) read(ctx context.Context) error {
	defer s.drop()
	c := s.collector
	if err := c.sayUnlisted(ctx, s.listing, s.listing.read(ctx, c.cluster, s)); err != nil {
		return err
	}
	s.about(page{})
	if s.shelf != nil {
		c.shelve(s.shelf)
	}
	return s.flush()
}

func (s *sorter) item(raw []byte) error {
	switch s.look(raw) {
	case atOnce:
		return s.batcher.item(raw)
	case shelved:
		return s.put(raw)
	}
	return nil
}

// put keeps a body; where there is no room for it, only its key.
func (s *sorter) put(raw []byte) error {
	c := s.collector
	if s.shelf != nil && (len(s.shelf.raw)+len(raw) > int(s.shelf.held) || len(s.shelf.ends) == batchObjects) {
		c.shelve(s.shelf)
		s.shelf = nil
	}
	if s.shelf == nil {
		held := max(batchBytes, int64(len(raw)))
		if !c.budget.shelf.TryAcquire(held) {
			h, err := headOf(raw)
			c.related.want(s.listing.resource.String(), h.key(), "the list of a moment before")
			return err
		}
		s.shelf = newBatch(s.listing)
		s.shelf.held, s.shelf.from = held, c.budget.shelf
	}
	s.shelf.raw = append(s.shelf.raw, raw...)
	s.shelf.ends = append(s.shelf.ends, len(s.shelf.raw))
	return nil
}

// shelve keeps a batch until unshelve.
func (c *collector) shelve(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shelf = append(c.shelf, b)
}

// unshelve hands what was shelved to the workers; what they met in a group they
// skip.
func (c *collector) unshelve(ctx context.Context) error {
	for _, b := range c.emptyShelf() {
		c.meter.expect(len(b.ends))
		if err := c.pool.submit(ctx, b); err != nil {
			b.free()
			return err
		}
	}
	return c.pool.drain(ctx)
}

func (c *collector) emptyShelf() []*batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	shelf := c.shelf
	c.shelf = nil
	return shelf
}

// recordPod keeps the pods that others are joined with or that have hooks.
func (c *collector) recordPod(h head, raw []byte) (podRecord, bool, placement) {
	p, err := podOf(raw)
	if err != nil {
		return podRecord{}, false, atOnce
	}
	record := podRecord{
		key: h.key(), priorityClass: p.priorityClass, running: p.running,
		hooked: !p.ended && hasHooks(h, p.annotations, c.plan.hooks), selected: c.plan.selects(h),
	}
	for _, claim := range p.claims {
		record.claims = append(record.claims, h.namespace+"/"+claim)
	}
	return record, record.hooked || len(record.claims) > 0, c.placementOf(resourcePods, record.key, record.selected, record.hooked, len(record.claims) > 0)
}

func (c *collector) recordClaim(h head, raw []byte) (claimRecord, bool, placement) {
	volume, err := volumeOf(raw)
	if err != nil {
		return claimRecord{}, false, atOnce
	}
	record := claimRecord{key: h.key(), volume: volume, group: h.labels()[c.plan.volumeGroupLabel], selected: c.plan.selects(h)}
	return record, true, c.placementOf(resourceClaims, record.key, record.selected, false, true)
}

// placementOf says what becomes of a pod or a claim. joined ones may be part of
// another's group.
func (c *collector) placementOf(resource, key string, selected, hooked, joined bool) placement {
	ordered := slices.ContainsFunc(c.plan.ordered, func(l orderedList) bool { return l.resource == resource && slices.Contains(l.keys, key) })
	switch {
	case hooked, ordered, !selected:
		return readLater
	case joined:
		return shelved
	}
	return atOnce
}

// blocksOf turns groups into blocks: in each the ordered objects first, then the
// pods with their PriorityClasses, the claims and their volumes.
func (c *collector) blocksOf(groups []group) []*itemBlock {
	var blocks []*itemBlock
	for _, g := range groups {
		b := &itemBlock{}
		add := func(name string, keys []string, chosen bool, absent string) {
			r, ok := c.plan.known[name]
			if !ok {
				return
			}
			for _, key := range keys {
				i := item{resource: r, chosen: chosen}
				i.namespace, i.name = splitKey(key)
				i.absent = fmt.Sprintf(absent, i)
				b.items = append(b.items, i)
			}
		}
		pods, claims := g.pods, g.claims
		for _, list := range g.ordered {
			add(list.resource, list.keys, true, "%s, which orderedResources names, does not exist")
			switch list.resource {
			case resourcePods:
				pods = slices.Concat(list.keys, pods)
			case resourceClaims:
				claims = slices.Concat(list.keys, claims)
			}
		}
		add(resourcePods, g.pods, false, "%s was deleted while the backup was taken")
		add(resourceClaims, g.claims, false, "%s was deleted while the backup was taken")
		c.addRelated(b, resourcePriorityClasses, c.classes, pods)
		c.addRelated(b, resourceVolumes, c.volumes, claims)
		blocks = append(blocks, b)
	}
	return blocks
}

// addRelated adds the cluster-scoped objects that those of the keys name.
func (c *collector) addRelated(b *itemBlock, name string, named map[string]string, keys []string) {
	r, ok := c.plan.relatable(name)
	if !ok {
		return
	}
	for _, key := range keys {
		if named[key] != "" {
			b.items = append(b.items, item{resource: r, name: named[key], absent: absence(r, named[key], key)})
		}
	}
}

func splitKey(key string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return namespace, name
	}
	return "", key
}
