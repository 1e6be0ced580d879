package worker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/berth-backup/berth"
)

// listenAgain is how long a Listener does without notifications where none
// arrive: a pooler may have been taken out of the way.
const listenAgain = 10 * time.Minute

// Listener turns what transactions tell into hints. A connection that breaks is
// made anew; whoever gets the hints polls as well, so that nothing depends on them.
type Listener struct {
	// Listen calls hint for every notification until it fails or ctx ends. It
	// fails with berth.ErrNoNotifications where none would arrive.
	Listen func(ctx context.Context, hint func()) error
	Hint   func()
	Log    *slog.Logger
}

// Run listens until ctx ends.
func (l Listener) Run(ctx context.Context) {
	deaf := false // and said so
	for ctx.Err() == nil {
		err := l.Listen(ctx, l.Hint)
		if ctx.Err() != nil {
			return
		}
		wait := time.Second + rand.N(time.Second)
		if !errors.Is(err, berth.ErrNoNotifications) {
			l.Log.Warn("listen for changes of the queue: polling until it works again", "error", err)
			deaf = false
		} else {
			wait = listenAgain
			if !deaf {
				l.Log.Warn("changes of the queue are not told, as behind a pooler that shares connections: polling is enough", "error", err)
			}
			deaf = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}
