package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-backup/berth/worker"
)

func TestAListenerThatBreaksListensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listening, hints := newTicks(), newTicks()
		loop(t, worker.Listener{
			Log:  quiet,
			Hint: func() { _ = hints.note() },
			Listen: func(ctx context.Context, hint func()) error {
				_ = listening.note()
				hint() // what was missed meanwhile
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Minute):
					return errAway
				}
			},
		}.Run)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		times := listening.all()
		if len(times) != 5 || len(hints.all()) != len(times) {
			t.Fatalf("listened at %v, hints at %v", times, hints.all())
		}
		for i, at := range times[1:] {
			if gap := at - times[i]; gap < time.Minute+time.Second || gap > time.Minute+2*time.Second {
				t.Errorf("listened at %s and at %s", times[i], at)
			}
		}
	})
}
