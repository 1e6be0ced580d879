package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"
)

// ticks notes when a loop called, and answers with what answer says.
type ticks struct {
	began  time.Time
	answer func(at time.Duration) error

	mu sync.Mutex
	at []time.Duration
}

func newTicks() *ticks {
	return &ticks{began: time.Now(), answer: func(time.Duration) error { return nil }}
}

func (c *ticks) note() error {
	at := time.Since(c.began)
	c.mu.Lock()
	c.at = append(c.at, at)
	c.mu.Unlock()
	return c.answer(at)
}

func (c *ticks) all() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Duration{}, c.at...)
}

// loop runs a loop until the test ends.
func loop(t *testing.T, run func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}
