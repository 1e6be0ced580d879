package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/berth-backup/berth"
)

// The first dequeue of a connection and the first end find their statements
// planned: no other is made behind the gate.
func TestConnectionsAreWarm(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	enqueue(t, d, request("first", "a"))
	s := openStore(t, d.Direct, 1)
	prepared := func() (n int) {
		t.Helper()
		if err := s.OnConnection(ctx, "SELECT count(*) FROM pg_prepared_statements WHERE generic_plans > 0 AND (statement LIKE '-- One dequeue%' OR statement LIKE '-- A running backup ends%')", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := prepared(); n != 2 {
		t.Errorf("%d statements of a new connection are planned, want 2", n)
	}
	done, err := s.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", Want: 1, LeaseTTL: time.Hour})
	if err != nil || len(done.Runs) != 1 {
		t.Fatalf("admitted %v, %v", done.Runs, err)
	}
	finish(t, d, done.Runs[0])
}
