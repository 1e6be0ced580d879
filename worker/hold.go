package worker

import (
	"context"
	"errors"
	"time"

	"github.com/berth-backup/berth"
)

// errShutdown ends a run whose worker goes away in order.
var errShutdown = errors.New("the worker is shutting down")

// hold is a worker's trust in its right to one run. Everything that a run does
// happens under ctx, which ends when the trust does: the worker counts from
// before it asked for the lease, on its own monotonic clock, so that it has
// stopped before anybody else may start.
type hold struct {
	run    berth.Run
	log    runLog
	ctx    context.Context
	cancel context.CancelCauseFunc
	expiry *time.Timer
}

func newHold(parent context.Context, run berth.Run, until time.Time) *hold {
	h := &hold{run: run}
	h.ctx, h.cancel = context.WithCancelCause(parent)
	h.expiry = time.AfterFunc(time.Until(until), func() { h.cancel(berth.ErrLeaseLost) })
	h.extend(until)
	return h
}

// extend trusts the lease until then. A hold that has ended stays so. Where
// then is over, as after the process was stopped, it ends here and now: the
// timer would fire a moment later, beside what the run does.
func (h *hold) extend(until time.Time) {
	left := time.Until(until)
	switch {
	case h.ctx.Err() != nil:
	case left <= 0:
		h.stop(berth.ErrLeaseLost)
	default:
		h.expiry.Reset(left)
	}
}

// stop ends the hold. The first cause counts.
func (h *hold) stop(cause error) {
	h.expiry.Stop()
	h.cancel(cause)
}

// lost says whether the right is gone: then nothing more may be written.
func (h *hold) lost() bool { return errors.Is(context.Cause(h.ctx), berth.ErrLeaseLost) }
