package backup

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

const (
	// A batch is handed to a worker when it has this many bytes or objects:
	// enough that handing over costs nothing, little enough that what is under
	// way stays small.
	batchBytes   = int64(128 << 10)
	batchObjects = 128
)

// batch is some objects of one listing on their way to a worker.
type batch struct {
	listing *listing
	// held is how much it takes of the memory of from.
	held int64
	from *semaphore.Weighted
	// raw holds the objects' JSON, one after another; ends says where each ends.
	raw  []byte
	ends []int
}

var batches = sync.Pool{New: func() any { return &batch{raw: make([]byte, 0, batchBytes)} }}

func newBatch(l *listing) *batch {
	b := batches.Get().(*batch)
	b.listing, b.raw, b.ends = l, b.raw[:0], b.ends[:0]
	return b
}

// free gives a batch back for its memory to be used again, unless one huge
// object made it long.
func (b *batch) free() {
	b.from.Release(b.held)
	b.from = nil
	if int64(cap(b.raw)) <= 4*batchBytes {
		batches.Put(b)
	}
}

// objects calls each with the JSON of every object.
func (b *batch) objects(each func(raw []byte) error) error {
	start := 0
	for _, end := range b.ends {
		if err := each(b.raw[start:end]); err != nil {
			return err
		}
		start = end
	}
	return nil
}

// backUp brings the objects of a batch into the archive.
func (b *batch) backUp(ctx context.Context, c *collector) error {
	defer b.free()
	done, skipped, bytes := 0, 0, int64(0)
	err := b.objects(func(raw []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		size, taken, err := c.takeUpListed(b.listing, raw)
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

// batcher is the sink of one listing: it gathers objects into batches and
// hands them over, waiting while the workers are behind or the budget is used up.
type batcher struct {
	ctx       context.Context
	collector *collector
	listing   *listing
	current   *batch
	// remaining is how many objects the server said were still to come.
	remaining int
}

func (b *batcher) about(p page) {
	b.collector.meter.expect(p.remaining - b.remaining)
	b.remaining = p.remaining
}

func (b *batcher) item(raw []byte) error {
	// An object that makes the batch longer than it is paid for begins a new one:
	// nobody waits for the budget while holding some of it.
	if b.current != nil && len(b.current.raw)+len(raw) > int(b.current.held) {
		if err := b.flush(); err != nil {
			return err
		}
	}
	if b.current == nil {
		held, err := b.collector.budget.acquire(b.ctx, max(batchBytes, int64(len(raw))))
		if err != nil {
			return err
		}
		b.current = newBatch(b.listing)
		b.current.held, b.current.from = held, b.collector.budget.flow
	}
	b.current.raw = append(b.current.raw, raw...)
	b.current.ends = append(b.current.ends, len(b.current.raw))
	if len(b.current.ends) >= batchObjects {
		return b.flush()
	}
	return nil
}

func (b *batcher) flush() error {
	if b.current == nil {
		return nil
	}
	full := b.current
	b.current = nil
	b.collector.meter.expect(len(full.ends))
	if err := b.collector.pool.submit(b.ctx, full); err != nil {
		full.free()
		return err
	}
	return nil
}

// drop gives back what a listing that failed has gathered and not handed over.
func (b *batcher) drop() {
	if b.current != nil {
		b.current.free()
		b.current = nil
	}
}
