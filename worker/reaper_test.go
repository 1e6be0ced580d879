package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth/worker"
)

type reapStore struct {
	*ticks
	grace time.Duration
}

func (s *reapStore) Reap(_ context.Context, grace time.Duration) (int, error) {
	s.grace = grace
	return 1, s.note()
}

func TestTheReaperLooksAtEveryIntervalWhateverHappens(t *testing.T) {
	for name, test := range map[string]struct {
		reaper worker.Reaper
		want   []time.Duration
		grace  time.Duration
	}{
		"by default": {worker.Reaper{}, []time.Duration{5 * time.Second, 10 * time.Second}, 15 * time.Second},
		"as told": {
			worker.Reaper{Interval: 4 * time.Second, Grace: time.Second},
			[]time.Duration{4 * time.Second, 8 * time.Second, 12 * time.Second}, time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &reapStore{ticks: newTicks()}
				store.answer = func(at time.Duration) error {
					if at < 6*time.Second {
						return errAway
					}
					return nil
				}
				test.reaper.Store, test.reaper.Log = store, quiet
				loop(t, test.reaper.Run)
				time.Sleep(13 * time.Second)
				synctest.Wait()
				if diff := cmp.Diff(test.want, store.all()); diff != "" {
					t.Errorf("looked at (-want +got):\n%s", diff)
				}
				if store.grace != test.grace {
					t.Errorf("with a grace of %s, want %s", store.grace, test.grace)
				}
			})
		})
	}
}
