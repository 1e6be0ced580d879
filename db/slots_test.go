package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/berth-backup/berth"
)

// The places of a great limit are made before the gate is taken, and go in parts
// that hold it for a moment each.
func TestManyPlacesDoNotHoldTheGate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 2)
	places := func() (n int) {
		t.Helper()
		if err := connect(t, d.Direct).QueryRow(ctx, "SELECT count(*) FROM slots WHERE cluster_id = 1").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	h := hold(t, d.Direct)
	h.gate()
	changed := make(chan error, 1)
	go func() { changed <- d.SetConcurrentBackups(ctx, berth.DefaultCluster, berth.MaxConcurrentBackups) }()
	awaitBlocked(t, d.Direct, 1)
	if n := places(); n != berth.MaxConcurrentBackups {
		t.Errorf("%d places are there when the change waits for the gate", n)
	}
	h.exec("commit")
	if err := <-changed; err != nil {
		t.Fatal(err)
	}

	takes := 0
	d.ObserveGates(func(time.Duration) { takes++ })
	if err := d.SetConcurrentBackups(ctx, berth.DefaultCluster, 2); err != nil {
		t.Fatal(err)
	}
	if n := places(); n != 2 || takes < 30 {
		t.Errorf("%d places are left after %d takes of the gate", n, takes)
	}
}
