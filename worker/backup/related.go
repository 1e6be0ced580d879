package backup

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// maxSingly is how many related objects of a resource are read one by one; more
// are picked from a list of all.
const maxSingly = 100

// related are the objects that those in the archive need and that nothing else
// has brought there: they are taken even where their type is not included, unless
// it is excluded (Velero's rule).
type related struct {
	mu sync.Mutex
	// wanted are keys by resource, each with who needs it.
	wanted   map[string]map[string]string
	bindings []binding
}

func newRelated() *related { return &related{wanted: map[string]map[string]string{}} }

func (r *related) want(resource, key, neededBy string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wanted[resource] == nil {
		r.wanted[resource] = map[string]string{}
	}
	r.wanted[resource][key] = neededBy
}

func (r *related) bind(b binding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bindings = append(r.bindings, b)
}

// take empties what is wanted.
func (r *related) take() map[string]map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted := r.wanted
	r.wanted = map[string]map[string]string{}
	return wanted
}

// relate notes what an object that came into the archive needs.
func (c *collector) relate(r resource, h head, raw []byte) error {
	switch r.String() {
	case resourcePods:
		p, err := podOf(raw)
		if err == nil && p.priorityClass != "" {
			c.related.want(resourcePriorityClasses, p.priorityClass, r.String()+" "+h.key())
		}
		return err
	case resourceClaims:
		volume, err := volumeOf(raw)
		if err == nil && volume != "" {
			c.related.want(resourceVolumes, volume, r.String()+" "+h.key())
		}
		return err
	case resourceBindings:
		b, err := bindingOf(h.name, raw)
		if err == nil && len(b.accounts) > 0 {
			c.related.bind(b)
		}
		return err
	}
	return nil
}

// takeRelated archives what the objects in the archive need, and what that needs.
func (c *collector) takeRelated(ctx context.Context) error {
	if err := c.takeBindings(ctx); err != nil {
		return err
	}
	c.wantDefinitions()
	for {
		wanted := c.related.take()
		if len(wanted) == 0 {
			return nil
		}
		for name, keys := range wanted {
			if err := c.takeWanted(ctx, name, keys); err != nil {
				return err
			}
		}
		if err := c.pool.drain(ctx); err != nil {
			return err
		}
	}
}

// takeBindings takes the ClusterRoleBindings of the ServiceAccounts in the
// archive, and wants their ClusterRoles.
func (c *collector) takeBindings(ctx context.Context) error {
	accounts := c.plan.ledgers.ledger(resource{version: "v1", plural: resourceServiceAccounts, namespaced: true})
	r, relatable := c.plan.relatable(resourceBindings)
	if !relatable || len(accounts.keys()) == 0 {
		return nil
	}
	if _, streamed := c.plan.chosen[resourceBindings]; !streamed || len(c.plan.selectors) > 0 {
		all := newListing(r, "", []string{""}, c.plan.ledgers)
		all.only = func(h head, raw []byte) bool {
			b, err := bindingOf(h.name, raw)
			return err == nil && b.bindsAny(accounts.holds)
		}
		if err := c.stream(ctx, []*listing{all}); err != nil {
			return err
		}
	}
	for _, b := range c.related.bindings {
		if b.role != "" && b.bindsAny(accounts.holds) {
			c.related.want(resourceClusterRoles, b.role, resourceBindings+" "+b.name)
		}
	}
	return nil
}

// wantDefinitions wants the definitions of the custom resources in the archive.
func (c *collector) wantDefinitions() {
	c.plan.ledgers.each(func(l *ledger) {
		if name, ok := definitionOf(l.resource); ok && len(l.keys()) > 0 {
			c.related.want(resourceDefinitions, name, "")
		}
	})
}

// takeWanted archives objects of one resource that others need.
func (c *collector) takeWanted(ctx context.Context, name string, neededBy map[string]string) error {
	r, relatable := c.plan.relatable(name)
	if !relatable {
		return nil
	}
	met := c.plan.ledgers.ledger(r)
	var keys []string
	for key := range neededBy {
		if !met.met(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if len(keys) > maxSingly {
		return c.pick(ctx, r, keys, neededBy)
	}
	for chunk := range slices.Chunk(keys, max(1, len(keys)/c.workers)) {
		b := &itemBlock{}
		for _, key := range chunk {
			i := item{resource: r, absent: absence(r, key, neededBy[key])}
			i.namespace, i.name = splitKey(key)
			b.items = append(b.items, i)
		}
		c.meter.expect(len(b.items))
		if err := c.pool.submit(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// absence is the warning where a related object is not there. Which groups are
// custom only their definitions tell: one that is not there is none.
func absence(r resource, key, neededBy string) string {
	if neededBy == "" {
		return ""
	}
	return fmt.Sprintf("%s %s, which %s needs, does not exist", r, key, neededBy)
}

// pick takes the objects of these keys from a list of all.
func (c *collector) pick(ctx context.Context, r resource, keys []string, neededBy map[string]string) error {
	var mu sync.Mutex
	left := setOf(keys)
	var lists []*listing
	for _, place := range c.plan.placesOf(r) {
		l := newListing(r, place, []string{""}, c.plan.ledgers)
		l.only = func(h head, _ []byte) bool {
			mu.Lock()
			defer mu.Unlock()
			wanted := left[h.key()]
			delete(left, h.key())
			return wanted
		}
		lists = append(lists, l)
	}
	if err := c.stream(ctx, lists); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	for _, key := range keys {
		if left[key] {
			c.results.warning("", absence(r, key, neededBy[key]))
		}
	}
	return nil
}
