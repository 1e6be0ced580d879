package objectstore

import (
	"context"
	"fmt"
	"io"
	"time"
)

// watch bounds each step of a transfer whose whole may take any time: a step
// that does not end within the time-out ends the transfer's context.
type watch struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timeout time.Duration
}

func newWatch(ctx context.Context, timeout time.Duration) *watch {
	ctx, cancel := context.WithCancelCause(ctx)
	return &watch{ctx: ctx, cancel: cancel, timeout: timeout}
}

// begin starts the clock of one step; the function it returns stops it.
func (w *watch) begin() func() {
	timer := time.AfterFunc(w.timeout, func() { w.cancel(errTimeout) })
	return func() { timer.Stop() }
}

// end releases the context; a transfer that has not ended by then is aborted.
func (w *watch) end() { w.cancel(nil) }

// explain names the cause of an error that came of the context's end.
func (w *watch) explain(err error) error {
	if err != nil && w.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(w.ctx), err)
	}
	return err
}

type watchedReader struct {
	reader io.ReadCloser
	watch  *watch
	key    string
}

func (r *watchedReader) Read(p []byte) (int, error) {
	defer r.watch.begin()()
	n, err := r.reader.Read(p)
	if err != nil && err != io.EOF {
		err = wrap(r.watch.explain(err), "read", r.key)
	}
	return n, err
}

func (r *watchedReader) Close() error {
	defer r.watch.end()
	return wrap(r.reader.Close(), "close", r.key)
}
