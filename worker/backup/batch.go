package backup

import (
	"context"
	"sync"
)

const (
	// A batch is handed to a worker when it has this many bytes or objects:
	// enough that handing over costs nothing, little enough that what is under
	// way stays small.
	batchBytes   = 128 << 10
	batchObjects = 128
)

// batch is some objects of one listing on their way to a worker.
type batch struct {
	listing *listing
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
	if cap(b.raw) <= 4*batchBytes {
		batches.Put(b)
	}
}

func (b *batch) full() bool { return len(b.raw) >= batchBytes || len(b.ends) >= batchObjects }

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

// batcher is the sink of one listing: it gathers objects into batches and
// hands them over, waiting while the workers are behind.
type batcher struct {
	ctx     context.Context
	listing *listing
	to      chan<- *batch
	meter   *meter
	current *batch
	// remaining is how many objects the server said were still to come.
	remaining int
}

func (b *batcher) about(p page) {
	b.meter.expect(p.remaining - b.remaining)
	b.remaining = p.remaining
}

func (b *batcher) item(raw []byte) error {
	if b.current == nil {
		b.current = newBatch(b.listing)
	}
	b.current.raw = append(b.current.raw, raw...)
	b.current.ends = append(b.current.ends, len(b.current.raw))
	if b.current.full() {
		return b.flush()
	}
	return nil
}

func (b *batcher) flush() error {
	if b.current == nil {
		return nil
	}
	b.meter.expect(len(b.current.ends))
	select {
	case b.to <- b.current:
		b.current = nil
		return nil
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
}
