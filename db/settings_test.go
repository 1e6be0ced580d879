package db_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

func mustSettings(tb testing.TB) func(berth.QueueSettings, error) berth.QueueSettings {
	return func(s berth.QueueSettings, err error) berth.QueueSettings {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return s
	}
}

// A change moves the version and leaves what it does not name; one made for
// another version changes nothing.
func TestChangeSettings(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)
	must := mustSettings(t)
	first := must(d.Settings(ctx, berth.DefaultCluster))
	if first.ConcurrentBackups != 1 || first.ItemBlockWorkerCount != 1 || first.MaxQueued != 0 || first.Paused != nil {
		t.Errorf("defaults: %+v", first)
	}
	second := must(d.ChangeSettings(ctx, berth.DefaultCluster, berth.SettingsChange{ItemBlockWorkerCount: new(4), MaxQueued: new(7)}))
	want := first
	want.ItemBlockWorkerCount, want.MaxQueued, want.Version = 4, 7, first.Version+1
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	same := must(d.ChangeSettings(ctx, berth.DefaultCluster, berth.SettingsChange{ItemBlockWorkerCount: new(4)}))
	if diff := cmp.Diff(second, same); diff != "" {
		t.Errorf("a change that changes nothing (-want +got):\n%s", diff)
	}
	_, err := d.ChangeSettings(ctx, berth.DefaultCluster, berth.SettingsChange{ConcurrentBackups: new(9), IfVersion: &first.Version})
	if berth.CodeOf(err) != berth.CodePreconditionFailed {
		t.Errorf("made for an older version: %v", err)
	}
	third := must(d.ChangeSettings(ctx, berth.DefaultCluster, berth.SettingsChange{MaxQueued: new(0), IfVersion: &second.Version}))
	if third.MaxQueued != 0 || third.ConcurrentBackups != 1 {
		t.Errorf("without a cap: %+v", third)
	}
	for name, change := range map[string]berth.SettingsChange{
		"no backup at once": {ConcurrentBackups: new(0)}, "no item worker": {ItemBlockWorkerCount: new(0)},
		"too many": {ConcurrentBackups: new(berth.MaxConcurrentBackups + 1)}, "a negative cap": {MaxQueued: new(-1)},
	} {
		if _, err := d.ChangeSettings(ctx, berth.DefaultCluster, change); berth.CodeOf(err) != berth.CodeValidationFailed {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(third, must(d.Settings(ctx, berth.DefaultCluster))); diff != "" {
		t.Errorf("what was refused changed something (-want +got):\n%s", diff)
	}
}

// A run has the number of item workers that its cluster had when it was admitted.
func TestRunsCarryTheItemBlockWorkerCount(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 2, "a", "b")
	mustSettings(t)(d.ChangeSettings(context.Background(), berth.DefaultCluster, berth.SettingsChange{ItemBlockWorkerCount: new(8)}))
	enqueue(t, d, request("first", "a"))
	if run := dispatch(t, d, 1)[0]; run.ItemBlockWorkerCount != 8 {
		t.Errorf("got %d", run.ItemBlockWorkerCount)
	}
}

// While a queue is paused nothing is admitted and everybody says so; what runs
// goes on. It ends when somebody says so, or by itself.
func TestPause(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	must := mustSettings(t)
	for _, end := range []string{"resumed", "until"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			d := newQueue(t, 2, "a", "b")
			enqueue(t, d, request("runs", "a"))
			run := dispatch(t, d, 2)[0]
			until := time.Now().Add(time.Hour)
			paused := must(d.Pause(ctx, berth.DefaultCluster, berth.PauseRequest{Reason: "upgrade", By: "ann", Until: &until}))
			if paused.Paused == nil || paused.Paused.Reason != "upgrade" || paused.Paused.By != "ann" || !paused.Paused.Until.Equal(until.Truncate(time.Microsecond)) {
				t.Fatalf("paused: %+v", paused.Paused)
			}
			enqueue(t, d, request("free", "b"))
			enqueue(t, d, request("behind", "a"))
			if runs := dispatch(t, d, 2); len(runs) > 0 {
				t.Errorf("admitted %v in a paused queue", names(runs))
			}
			checkWaits(t, d, "paused", map[string]string{"free": "QueuePaused", "behind": "QueuePaused"})
			finish(t, d, run)
			if runs := dispatch(t, d, 2); len(runs) > 0 {
				t.Errorf("admitted %v in a paused queue", names(runs))
			}
			if end == "resumed" {
				if s := must(d.Resume(ctx, berth.DefaultCluster, "bob")); s.Paused != nil {
					t.Errorf("resumed: %+v", s.Paused)
				}
			} else {
				exec(t, d, "UPDATE clusters SET paused_until = clock_timestamp()")
			}
			if diff := cmp.Diff([]string{"free", "behind"}, names(dispatch(t, d, 2))); diff != "" {
				t.Errorf("after the pause (-want +got):\n%s", diff)
			}
			found := collect[struct{ Reason string }](t, connect(t, d.URL), `
				SELECT reason FROM events WHERE seq IS NULL AND reason LIKE 'Queue%' ORDER BY id`)
			if diff := cmp.Diff([]struct{ Reason string }{{"QueuePaused"}, {"QueueResumed"}}, found); diff != "" {
				t.Errorf("events of the cluster (-want +got):\n%s", diff)
			}
		})
	}
}

// exec runs one statement past the store.
func exec(tb testing.TB, d *dbtest.Database, sql string, args ...any) {
	tb.Helper()
	if _, err := connect(tb, d.URL).Exec(context.Background(), sql, args...); err != nil {
		tb.Fatal(err)
	}
}

// The cap on waiting backups is exact, also where many ask at once.
func TestMaxQueuedIsExact(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	mustSettings(t)(d.ChangeSettings(ctx, berth.DefaultCluster, berth.SettingsChange{MaxQueued: new(5)}))
	later := time.Now().Add(time.Hour)
	if _, err := d.Enqueue(ctx, berth.Request{Name: "later", NotBefore: &later, Spec: spec([]string{"a"}, nil)}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	full := make([]bool, 20)
	for i := range full {
		all.Go(func() {
			_, err := d.Enqueue(ctx, request(fmt.Sprintf("b%d", i), "a"))
			full[i] = berth.CodeOf(err) == berth.CodeQueueFull
			if err != nil && !full[i] {
				t.Error(err)
			}
		})
	}
	all.Wait()
	refused := 0
	for _, f := range full {
		if f {
			refused++
		}
	}
	if refused != 16 {
		t.Errorf("%d of 20 were refused, want 16: one waits already, five may", refused)
	}
	// One that leaves makes room for one.
	dispatch(t, d, 1)
	enqueue(t, d, request("more", "a"))
	if _, err := d.Enqueue(ctx, request("too-many", "a")); berth.CodeOf(err) != berth.CodeQueueFull {
		t.Errorf("one too many: %v", err)
	}
}
