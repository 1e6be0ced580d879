package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
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

// Where no notification arrives, a listener says so once and tries rarely, and
// listens again when they do.
func TestAListenerThatHearsNothingSaysSoOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		listening, hints := newTicks(), newTicks()
		loop(t, worker.Listener{
			Log:  slog.New(slog.NewTextHandler(&said, nil)),
			Hint: func() { _ = hints.note() },
			Listen: func(ctx context.Context, hint func()) error {
				_ = listening.note()
				if len(listening.all()) <= 3 {
					return fmt.Errorf("listen: %w", berth.ErrNoNotifications)
				}
				hint()
				<-ctx.Done()
				return ctx.Err()
			},
		}.Run)
		time.Sleep(time.Hour)
		synctest.Wait()
		want := []time.Duration{0, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute}
		if diff := cmp.Diff(want, listening.all()); diff != "" {
			t.Errorf("listened at (-want +got):\n%s", diff)
		}
		if len(hints.all()) != 1 {
			t.Errorf("hints at %v, want one when it works", hints.all())
		}
		if n := strings.Count(said.String(), "\n"); n != 1 || !strings.Contains(said.String(), "polling is enough") {
			t.Errorf("said %d lines, want one:\n%s", n, said.String())
		}
	})
}
