package backup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// askedSingly is how many namespaces are looked up one by one; for more, all of
// the cluster's are listed.
const askedSingly = 8

// withoutDeleted divides a backup's contents into the namespaces that are there
// still and those that were deleted, or began to be, after they were frozen: what
// is left of these is on its way out. In doubt one is there.
func (c *Cluster) withoutDeleted(ctx context.Context, contents []string) (there, deleted []string, err error) {
	gone := map[string]bool{}
	if len(contents) > askedSingly {
		gone = setOf(contents)
		all, err := c.Namespaces(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, ns := range all {
			delete(gone, ns.Name)
		}
	} else {
		for _, name := range contents {
			if gone[name], err = c.isDeleted(ctx, name); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, name := range contents {
		if gone[name] {
			deleted = append(deleted, name)
		} else {
			there = append(there, name)
		}
	}
	return there, deleted, nil
}

func (c *Cluster) isDeleted(ctx context.Context, namespace string) (bool, error) {
	raw, err := c.get(ctx, resource{version: "v1", plural: "namespaces"}, "", namespace)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case errors.Is(err, errNoAnswer):
		return false, fmt.Errorf("look whether namespace %s is still there: %w", namespace, err)
	case err != nil:
		return statusOf(err) == http.StatusNotFound, nil
	}
	h, err := headOf(raw)
	return err == nil && h.deleting, nil
}
