package worker

import (
	"context"
	"log/slog"
	"time"
)

// every does something at once and then at every interval, until ctx ends; after a
// failure, which it logs as what, it comes back within a minute.
func every(ctx context.Context, interval time.Duration, what string, log *slog.Logger, do func(context.Context) error) {
	for {
		wait := interval
		if err := do(ctx); err != nil && ctx.Err() == nil {
			log.Warn(what, "error", err)
			wait = min(wait, time.Minute)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
