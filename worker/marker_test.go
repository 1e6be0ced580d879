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
		if diff := cmp.Diff([]time.Duration{0, 2 * time.Second, 3 * time.Second}, store.all()); diff != "" {
			t.Errorf("marked at (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"east", "west", "east", "west", "east", "west"}, store.names()); diff != "" {
			t.Errorf("marked (-want +got):\n%s", diff)
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
		time.Sleep(time.Minute + time.Second)
		if len(store.names()) != 1 {
			t.Errorf("marked %q", store.names())
		}
	})
}
