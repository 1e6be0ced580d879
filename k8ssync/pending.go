package k8ssync

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-backup/berth"
)

// pendingNamespaces is what a watch has seen and the store has not been told.
// A Reflector fills it: Replace is a complete list, the rest are changes. Names
// stand in it once however often they change, so that a burst is one write.
type pendingNamespaces struct {
	mu       sync.Mutex
	known    map[string]berth.Namespace
	changed  map[string]bool
	complete bool
	// some holds a token while there is something to write.
	some chan struct{}
}

// namespaceBatch is one write: every namespace, or those that changed.
type namespaceBatch struct {
	complete   bool
	namespaces []berth.Namespace
}

var _ cache.ReflectorStore = (*pendingNamespaces)(nil)

func newPendingNamespaces() *pendingNamespaces {
	return &pendingNamespaces{
		known:   map[string]berth.Namespace{},
		changed: map[string]bool{},
		some:    make(chan struct{}, 1),
	}
}

// Add takes a namespace that appeared.
func (p *pendingNamespaces) Add(object any) error { return p.Update(object) }

// Update takes a namespace that changed. Changes of anything but its existence
// and its exclusion are not worth a write.
func (p *pendingNamespaces) Update(object any) error {
	ns, err := namespaceOf(object)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[ns.Name] != ns {
		p.known[ns.Name] = ns
		p.change(ns.Name)
	}
	return nil
}

// Delete takes a namespace that is gone.
func (p *pendingNamespaces) Delete(object any) error {
	ns, err := namespaceOf(object)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[ns.Name].Exists {
		delete(p.known, ns.Name)
		p.change(ns.Name)
	}
	return nil
}

// Replace takes a complete list. It is always written, also when nothing seems
// to have changed: what another worker wrote meanwhile is not known here.
func (p *pendingNamespaces) Replace(objects []any, _ string) error {
	known := make(map[string]berth.Namespace, len(objects))
	for _, object := range objects {
		ns, err := namespaceOf(object)
		if err != nil {
			return err
		}
		known[ns.Name] = ns
	}
	p.mu.Lock()
	p.known = known
	p.mu.Unlock()
	p.again()
	return nil
}

// Resync has nothing to do: a Reflector that is replaced lists afresh.
func (p *pendingNamespaces) Resync() error { return nil }

// again makes the next write a complete one.
func (p *pendingNamespaces) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complete = true
	p.signal()
}

// wait blocks until there is something to write, and says whether ctx goes on.
func (p *pendingNamespaces) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-p.some:
		return true
	}
}

// take hands over everything that is to be written, sorted by name, and
// forgets that it was.
func (p *pendingNamespaces) take() namespaceBatch {
	p.mu.Lock()
	defer p.mu.Unlock()
	batch := namespaceBatch{complete: p.complete}
	if p.complete {
		batch.namespaces = slices.Collect(maps.Values(p.known))
	} else {
		for name := range p.changed {
			ns := p.known[name]
			ns.Name = name
			batch.namespaces = append(batch.namespaces, ns)
		}
	}
	slices.SortFunc(batch.namespaces, func(a, b berth.Namespace) int { return cmp.Compare(a.Name, b.Name) })
	p.complete = false
	clear(p.changed)
	select {
	case <-p.some:
	default:
	}
	return batch
}

// change and signal are called with mu held.
func (p *pendingNamespaces) change(name string) {
	p.changed[name] = true
	p.signal()
}

func (p *pendingNamespaces) signal() {
	select {
	case p.some <- struct{}{}:
	default:
	}
}

func namespaceOf(object any) (berth.Namespace, error) {
	m, err := meta.Accessor(object)
	if err != nil {
		return berth.Namespace{}, fmt.Errorf("read a namespace's metadata: %w", err)
	}
	return berth.Namespace{Name: m.GetName(), Exists: true, Excluded: m.GetLabels()[berth.LabelExclude] == "true"}, nil
}
