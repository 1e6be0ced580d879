package db_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
)

// Which pods are frozen outlives the attempt that froze them, and only the worker
// that has the fence says so.
func TestFrozenPodsOutliveTheirAttempt(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 2, "a")
	enqueue(t, d, request("frozen", "a"))
	first := dispatch(t, d, 1)[0]
	db0, db1 := berth.Pod{Namespace: "a", Name: "db-0", UID: "0"}, berth.Pod{Namespace: "a", Name: "db-1", UID: "1"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	begun := func(run berth.Run, want ...berth.Pod) {
		t.Helper()
		pods, err := d.BegunPods(ctx, run)
		must(err)
		if diff := cmp.Diff(want, pods); diff != "" && len(want)+len(pods) > 0 {
			t.Errorf("frozen pods (-want +got):\n%s", diff)
		}
	}
	must(d.BeginPod(ctx, first, db0))
	must(d.BeginPod(ctx, first, db0)) // its answer may be lost
	must(d.BeginPod(ctx, first, db1))
	begun(first, db0, db1)

	expire(t, d, first)
	reap(t, d, 1)
	for what, err := range map[string]error{"BeginPod": d.BeginPod(ctx, first, berth.Pod{UID: "2"}), "EndPod": d.EndPod(ctx, first, db0)} {
		if !errors.Is(err, berth.ErrLeaseLost) {
			t.Errorf("%s after the lease was lost: %v", what, err)
		}
	}
	second := dispatch(t, d, 1)[0]
	begun(second, db0, db1)
	must(d.EndPod(ctx, second, db0))
	must(d.EndPod(ctx, second, db0))
	begun(second, db1)
}
