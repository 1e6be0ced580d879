package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth/worker"
)

func TestRoundsComeToEveryClusterAndSoonAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := newTicks()
		var done []string
		loop(t, worker.Rounds{
			What: "look", Interval: time.Hour, Log: quiet,
			Clusters: func(context.Context) ([]string, error) { return []string{"east", "west"}, asked.note() },
			Do: func(_ context.Context, cluster string) error {
				done = append(done, cluster)
				if len(done) == 1 {
					return errAway
				}
				return nil
			},
		}.Run)
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]time.Duration{0, time.Minute, time.Minute + time.Hour}, asked.all()); diff != "" {
			t.Errorf("went round at (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"east", "west", "east", "west", "east", "west"}, done); diff != "" {
			t.Errorf("came to (-want +got):\n%s", diff)
		}
	})
}
