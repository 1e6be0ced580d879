package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth/worker"
)

// learned is when the queue holds enough.
const learned = 90 * time.Second

type statisticsStore struct{ *ticks }

func (s statisticsStore) Analyze(context.Context) (bool, error) {
	err := s.note()
	return time.Since(s.began) >= learned, err
}

func TestStatisticsAreLookedForUntilThereAreSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := statisticsStore{newTicks()}
		store.answer = func(at time.Duration) error {
			if at == 10*time.Second {
				return errAway
			}
			return nil
		}
		loop(t, worker.Statistics{Store: store, Log: quiet}.Run)
		time.Sleep(time.Hour)
		var want []time.Duration
		for at := time.Duration(0); at <= learned; at += 5 * time.Second {
			want = append(want, at)
		}
		if diff := cmp.Diff(want, store.all()); diff != "" {
			t.Errorf("looked (-want +got):\n%s", diff)
		}
	})
}
