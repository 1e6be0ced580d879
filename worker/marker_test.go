package worker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/worker"
)

// markStore has clusters, and notes what is asked of them.
type markStore struct {
	*ticks
	clusters []string

	mu     sync.Mutex
	marked []string
	broken map[string]bool
}

func (s *markStore) Clusters(context.Context) ([]string, error) { return s.clusters, s.note() }

func (s *markStore) Dispatch(_ context.Context, r berth.DispatchRequest) (berth.Dispatched, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Want != 0 {
		panic("the server dequeues")
	}
	s.marked = append(s.marked, r.Cluster)
	if s.broken[r.Cluster] {
		return berth.Dispatched{}, errAway
	}
	return berth.Dispatched{PassedOver: []berth.PassedOver{{Name: "b", Witness: "a", Shared: []string{"ns"}}}}, nil
}

func (s *markStore) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.marked...)
}

func TestTheMarkerMarksEveryClusterAtEachHintAndInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &markStore{ticks: newTicks(), clusters: []string{"east", "west"}}
		hint := make(chan struct{})
		loop(t, worker.Marker{Store: store, Hint: hint, Log: quiet}.Run)
		time.Sleep(3 * time.Second)
		hint <- struct{}{}
		synctest.Wait()
		marked := store.all()
		if len(marked) != 3 || marked[0] != 0 || marked[1] < 2*time.Second || marked[1] > 2400*time.Millisecond || marked[2] != 3*time.Second {
			t.Errorf("marked at %v, want at once, within 2 s and a fifth, and at the hint", marked)
		}
		if diff := cmp.Diff([]string{"east", "west", "east", "west", "east", "west"}, store.names()); diff != "" {
			t.Errorf("marked (-want +got):\n%s", diff)
		}
	})
}

// Servers that start together do not ask in step.
func TestTheMarkersPollHasJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &markStore{ticks: newTicks()}
		loop(t, worker.Marker{Store: store, Log: quiet}.Run)
		time.Sleep(time.Minute)
		polls := store.all()
		waits := map[time.Duration]bool{}
		for i := range polls[1:] {
			waits[polls[i+1]-polls[i]] = true
		}
		if len(polls) < 25 || len(waits) < 2 {
			t.Errorf("polled at %v", polls)
		}
	})
}

func TestAClusterThatCannotBeMarkedIsInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &markStore{ticks: newTicks(), clusters: []string{"east", "west"}, broken: map[string]bool{"east": true}}
		loop(t, worker.Marker{Store: store, Log: quiet}.Run)
		synctest.Wait()
		if diff := cmp.Diff([]string{"east", "west"}, store.names()); diff != "" {
			t.Errorf("marked (-want +got):\n%s", diff)
		}
	})
}

func TestTheMarkerOutlastsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &markStore{ticks: newTicks(), clusters: []string{"east"}}
		store.answer = func(at time.Duration) error {
			if at < time.Minute {
				return errAway
			}
			return nil
		}
		loop(t, worker.Marker{Store: store, Log: quiet}.Run)
		time.Sleep(time.Minute + 2400*time.Millisecond)
		if len(store.names()) == 0 {
			t.Errorf("marked %q", store.names())
		}
	})
}
