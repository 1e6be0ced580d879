package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth/worker"
)

type partitionStore struct{ *ticks }

func (s partitionStore) MakePartitions(context.Context) error { return s.note() }

func TestTheJanitorLooksAtOnceDailyAndSoonAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := partitionStore{newTicks()}
		store.answer = func(at time.Duration) error {
			if at < 90*time.Second {
				return errAway
			}
			return nil
		}
		loop(t, worker.Janitor{Store: store, Log: quiet}.Run)
		time.Sleep(49 * time.Hour)
		want := []time.Duration{0, time.Minute, 2 * time.Minute, 2*time.Minute + 24*time.Hour, 2*time.Minute + 48*time.Hour}
		if diff := cmp.Diff(want, store.all()); diff != "" {
			t.Errorf("looked at (-want +got):\n%s", diff)
		}
	})
}
