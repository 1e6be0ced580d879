package k8ssync

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"
)

// The default bounds of every wait between two tries.
const (
	defaultRetryMin = 250 * time.Millisecond
	defaultRetryMax = 30 * time.Second
)

// backoff is an exponential wait with jitter: it doubles with each failure in a
// row, from min to max, and is shortened by up to a half at random, so that
// several workers do not come back at the same instant.
type backoff struct{ min, max time.Duration }

func newBackoff(least, most time.Duration) backoff {
	least = cmp.Or(least, defaultRetryMin)
	return backoff{min: least, max: max(least, cmp.Or(most, defaultRetryMax))}
}

// after is the wait that follows the given number of failures in a row.
func (b backoff) after(failures int) time.Duration {
	wait := b.min
	for i := 1; i < failures && wait < b.max; i++ {
		wait *= 2
	}
	return jitter(min(wait, b.max))
}

// jitter is a random duration from half of d to d.
func jitter(d time.Duration) time.Duration {
	if d < 2 {
		return d
	}
	return d - rand.N(d/2)
}

// pause waits for d, for a value on wake (nil never has one) or for the end of
// ctx, and says whether ctx goes on.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-wake:
	}
	return ctx.Err() == nil
}
