package db_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

func countPlaces(t *testing.T, d *dbtest.Database) (n int) {
	t.Helper()
	if err := connect(t, d.Direct).QueryRow(t.Context(), "SELECT count(*) FROM slots WHERE cluster_id = 1").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// The places of a great limit are made before the gate is taken, and go in parts
// that hold it for a moment each.
func TestManyPlacesDoNotHoldTheGate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 2)
	h := hold(t, d.Direct)
	h.gate()
	changed := make(chan error, 1)
	go func() { changed <- d.SetConcurrentBackups(ctx, berth.DefaultCluster, berth.MaxConcurrentBackups) }()
	awaitBlocked(t, d.Direct, 1)
	if n := countPlaces(t, d); n != berth.MaxConcurrentBackups {
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
	if n := countPlaces(t, d); n != 2 || takes < 30 {
		t.Errorf("%d places are left after %d takes of the gate", n, takes)
	}
}

// What a change that was cut short, at its gate or on its way back, leaves above
// the limit is taken by nobody and goes with the next change, whatever it changes.
func TestPlacesAboveTheLimitAreNobodys(t *testing.T) {
	t.Parallel()
	const limit = 2
	for name, cutShort := range map[string]func(*testing.T, *dbtest.Database){
		"before the limit is raised": func(t *testing.T, d *dbtest.Database) {
			h := hold(t, d.Direct)
			h.gate()
			ctx, cancel := context.WithCancel(t.Context())
			changed := during(func() error { return d.SetConcurrentBackups(ctx, berth.DefaultCluster, 9) })
			awaitBlocked(t, d.Direct, 1)
			cancel()
			if err := changed(); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			h.exec("rollback")
		},
		"after it is lowered": func(t *testing.T, d *dbtest.Database) {
			if err := d.SetConcurrentBackups(t.Context(), berth.DefaultCluster, 9); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			d.ObserveGates(func(time.Duration) { cancel() }) // the first that it takes is the change's
			if err := d.SetConcurrentBackups(ctx, berth.DefaultCluster, limit); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			d.ObserveGates(func(time.Duration) {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newQueue(t, limit)
			cutShort(t, d)
			if n := countPlaces(t, d); n != 9 {
				t.Fatalf("%d places are left, want the 9 of a change that was cut short", n)
			}
			for i := range 4 {
				enqueue(t, d, request(fmt.Sprintf("b%d", i), fmt.Sprintf("ns-%d", i)))
			}
			if runs := dispatch(t, d, 4); len(runs) != limit {
				t.Errorf("%d were admitted, want %d", len(runs), limit)
			}
			if _, err := d.ChangeSettings(t.Context(), berth.DefaultCluster, berth.SettingsChange{MaxQueued: new(7)}); err != nil {
				t.Fatal(err)
			}
			if n := countPlaces(t, d); n != limit {
				t.Errorf("%d places after another change, want %d", n, limit)
			}
		})
	}
}

// A change that was made for other settings opens no place.
func TestARefusedChangeOpensNoPlace(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 2)
	change := berth.SettingsChange{ConcurrentBackups: new(9), IfVersion: new(int64(-1))}
	if _, err := d.ChangeSettings(t.Context(), berth.DefaultCluster, change); berth.CodeOf(err) != berth.CodePreconditionFailed {
		t.Fatal(err)
	}
	if n := countPlaces(t, d); n != 2 {
		t.Errorf("%d places, want 2", n)
	}
}
