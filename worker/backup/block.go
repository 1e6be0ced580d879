package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
)

// item names an object of a block.
type item struct {
	resource        resource
	namespace, name string
	// chosen items belong to the backup only if the spec's selectors choose them,
	// too; others are related to one that was.
	chosen bool
	// absent is the warning where there is no such object; empty for none.
	absent string
}

func (i item) key() string { h := head{namespace: i.namespace, name: i.name}; return h.key() }

func (i item) String() string { return i.resource.String() + " " + i.key() }

// itemBlock are objects that belong together. One worker reads them one after
// another; between the pre hooks of its pods and their post hooks.
type itemBlock struct{ items []item }

func (b *itemBlock) backUp(ctx context.Context, c *collector) (err error) {
	held := &quiesced{collector: c}
	// Whatever happens in between, what was frozen is thawed.
	defer func() { err = errors.Join(err, held.release(ctx)) }()
	dropped, err := held.quiesce(ctx, b.items)
	if err != nil {
		return err
	}
	for _, i := range b.items {
		if dropped[i.key()] && i.resource.String() == resourcePods {
			c.plan.ledgers.ledger(i.resource).take(i.key())
			c.meter.expect(-1)
			continue
		}
		if err := c.takeItem(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// takeItem reads one object and archives it. Only what concerns the whole run is
// returned.
func (c *collector) takeItem(ctx context.Context, i item) error {
	if c.plan.ledgers.ledger(i.resource).met(i.key()) {
		c.meter.expect(-1)
		return nil
	}
	held, err := c.budget.acquire(ctx, batchBytes)
	if err != nil {
		return err
	}
	defer c.budget.flow.Release(held)
	raw, err := c.cluster.get(ctx, i.resource, i.namespace, i.name)
	var size int64
	taken := false
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errNoAnswer):
		return fmt.Errorf("get %s: %w", i, err)
	case statusOf(err) == http.StatusNotFound:
		if i.absent != "" {
			c.results.warning(i.namespace, i.absent)
		}
	case err != nil:
		c.results.error(i.namespace, fmt.Sprintf("get %s: %v", i, err))
	default:
		if size, taken, err = c.takeUpObject(i.resource, raw, i.chosen); err != nil {
			return err
		}
	}
	if !taken {
		c.meter.expect(-1)
		return nil
	}
	c.meter.move(0, 1, size)
	return nil
}

// get reads one object. A failure that may pass is tried again.
func (c *Cluster) get(ctx context.Context, r resource, namespace, name string) (raw []byte, err error) {
	err = c.retrying(ctx, func() error {
		raw, err = c.getOnce(ctx, r.url(namespace)+"/"+name)
		return err
	})
	return raw, err
}

func (c *Cluster) getOnce(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.RequestTimeout, fmt.Errorf("%w for %s", errSilence, c.options.RequestTimeout))
	defer cancel()
	raw, err := c.rest.Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil && statusOf(err) == 0 {
		return nil, unanswered(causeOf(ctx, err))
	}
	return bytes.TrimSpace(raw), err
}
