package backup

import (
	"context"
	"fmt"
	"slices"
)

// warnOfNewNamespaces names the namespaces that appeared while a backup that
// claims everything was taken: they are not in it.
func (c *collector) warnOfNewNamespaces(ctx context.Context) {
	if !c.plan.wide {
		return
	}
	names := &nameSink{}
	l := newListing(resource{version: "v1", plural: "namespaces"}, "", []string{""})
	if err := l.read(ctx, c.cluster, names); err != nil {
		c.results.warning("", fmt.Sprintf("look for namespaces that appeared: %v", err))
		return
	}
	slices.Sort(names.names)
	for _, name := range slices.Compact(names.names) {
		if c.plan.scope.Contains(name) && !c.plan.namespaces[name] && !c.plan.leftOut[name] {
			c.results.warning(name, fmt.Sprintf("namespace %s appeared while the backup was taken: it is not in it", name))
		}
	}
}

// nameSink keeps the names of the objects that are neither excluded nor being deleted.
type nameSink struct{ names []string }

func (s *nameSink) about(page) {}

func (s *nameSink) item(raw []byte) error {
	h, err := headOf(raw)
	if err == nil && !h.excluded && !h.deleting {
		s.names = append(s.names, h.name)
	}
	return err
}
