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

// Somebody who has a table locked keeps nobody from a new connection.
func TestALockedTableKeepsNobodyFromAConnection(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d := newQueue(t, 1, "a")
	h := &holder{tb: t, conn: connect(t, d.Direct)}
	h.exec("BEGIN")
	h.exec("LOCK TABLE backups IN ACCESS EXCLUSIVE MODE")
	s := openStore(t, d.Direct, 1)
	if _, err := s.Clusters(ctx); err != nil {
		t.Errorf("a read of another table: %v", err)
	}
	h.exec("ROLLBACK")
	enqueue(t, d, request("first", "a"))
	done, err := s.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", Want: 1, LeaseTTL: time.Hour})
	if err != nil || len(done.Runs) != 1 {
		t.Errorf("admitted %v, %v", done.Runs, err)
	}
}
