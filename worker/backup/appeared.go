package backup

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/berth-backup/berth"
)

// warnOfNewNamespaces names the namespaces that the spec takes in and that the
// contents, frozen at admission, do not hold: they appeared later, or moments before
// and nobody had told. A named one is not among them: it is missing, or was found.
func (c *collector) warnOfNewNamespaces(ctx context.Context) {
	if !c.plan.wide && !c.plan.scope.HasPattern() {
		return
	}
	there, err := c.cluster.Namespaces(ctx)
	if err != nil {
		c.results.warning("", fmt.Sprintf("look for namespaces that appeared: %v", err))
		return
	}
	for _, ns := range there {
		if c.plan.scope.Contains(ns.Name) && !ns.Excluded && !c.plan.namespaces[ns.Name] && !c.plan.leftOut[ns.Name] {
			c.results.warning(ns.Name, fmt.Sprintf("namespace %s appeared while the backup was taken: it is not in it", ns.Name))
		}
	}
}

// Namespaces lists the namespaces that the cluster has now and that are not being
// deleted, by name.
func (c *Cluster) Namespaces(ctx context.Context) ([]berth.Namespace, error) {
	there := &namespaceSink{}
	if err := (&listing{resource: resource{version: "v1", plural: "namespaces"}, selectors: []string{""}}).read(ctx, c, there); err != nil {
		return nil, fmt.Errorf("list the namespaces: %w", err)
	}
	slices.SortFunc(there.found, func(a, b berth.Namespace) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(there.found, func(a, b berth.Namespace) bool { return a.Name == b.Name }), nil
}

// namespaceSink keeps what is told of namespaces.
type namespaceSink struct{ found []berth.Namespace }

func (s *namespaceSink) about(page) {}

func (s *namespaceSink) item(raw []byte) error {
	h, err := headOf(raw)
	if err == nil && !h.deleting {
		s.found = append(s.found, berth.Namespace{Name: h.name, Exists: true, Excluded: h.excluded})
	}
	return err
}
