package worker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Listener turns what transactions tell into hints. A connection that breaks is
// made anew; whoever gets the hints polls as well, so that nothing depends on them.
type Listener struct {
	// Listen calls hint for every notification until it fails or ctx ends.
	Listen func(ctx context.Context, hint func()) error
	Hint   func()
	Log    *slog.Logger
}

// Run listens until ctx ends.
func (l Listener) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := l.Listen(ctx, l.Hint)
		if ctx.Err() != nil {
			return
		}
		l.Log.Warn("listen for changes of the queue: polling until it works again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second + rand.N(time.Second)):
		}
	}
}
