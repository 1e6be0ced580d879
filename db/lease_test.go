package db_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

func read(tb testing.TB, d *dbtest.Database, run berth.Run) berth.Backup {
	tb.Helper()
	b, err := d.Backup(context.Background(), run.ID)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func reap(tb testing.TB, d *dbtest.Database, want int) {
	tb.Helper()
	reaped, err := d.Reap(context.Background(), 0)
	if err != nil {
		tb.Fatal(err)
	}
	if reaped != want {
		tb.Fatalf("%d backups were reaped, want %d", reaped, want)
	}
}

func checkLateWrites(tb testing.TB, d *dbtest.Database, run berth.Run) {
	tb.Helper()
	before := read(tb, d, run)
	for what, err := range lateWrites(context.Background(), d.Store, run) {
		if !errors.Is(err, berth.ErrLeaseLost) {
			tb.Errorf("%s: %v, want %v", what, err, berth.ErrLeaseLost)
		}
	}
	// A predicted start counts from when it is asked for.
	if diff := cmp.Diff(before, read(tb, d, run), cmpopts.IgnoreFields(berth.QueueEntry{}, "ETA")); diff != "" {
		tb.Errorf("late writes changed the backup (-before +after):\n%s", diff)
	}
}

// Renewing prolongs what a worker holds, names what it does not, and tells that
// the worker is alive.
func TestRenew(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 3, "a", "b")
	enqueue(t, d, request("kept", "a"))
	enqueue(t, d, request("lost", "b"))
	runs := dispatch(t, d, 2)
	expire(t, d, runs...)
	kept, lost := runs[0], runs[1]
	taken := lost
	taken.Fence--

	found, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour, Held: []berth.Run{kept, taken}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]berth.Run{taken}, found); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	reap(t, d, 1)
	if phase := read(t, d, kept).Phase; phase != berth.PhaseReadyToStart {
		t.Errorf("the renewed one is %s", phase)
	}
	if phase := read(t, d, lost).Phase; phase != berth.PhaseQueued {
		t.Errorf("the one that was not renewed is %s", phase)
	}
}

// An expired lease that nobody has reaped yet still counts: the work is not lost.
func TestExpiredLeaseMayFinish(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a")
	enqueue(t, d, request("b", "a"))
	run := dispatch(t, d, 1)[0]
	expire(t, d, run)
	finish(t, d, run)
	reap(t, d, 0)
	if phase := read(t, d, run).Phase; phase != berth.PhaseCompleted {
		t.Errorf("it is %s", phase)
	}
}

// A lease is reaped only when it ran out more than the grace ago.
func TestReapWaitsForGrace(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a")
	enqueue(t, d, request("b", "a"))
	expire(t, d, dispatch(t, d, 1)...) // an hour ago
	reaped, err := d.Reap(context.Background(), 2*time.Hour)
	if err != nil || reaped != 0 {
		t.Errorf("within the grace: %d reaped, %v", reaped, err)
	}
	reap(t, d, 1)
}

// Every lost lease costs an attempt; the backup keeps its place, after a back-off
// from the second loss on, until the last one, which ends it with the reason.
func TestReap(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	first := enqueue(t, d, request("first", "a"))
	enqueue(t, d, request("second", "a"))

	var old []berth.Run
	for attempt := 1; attempt <= berth.DefaultMaxAttempts; attempt++ {
		runs := dispatch(t, d, 1)
		if len(runs) != 1 || runs[0].Name != "first" || runs[0].Attempt != attempt {
			t.Fatalf("%s: attempt %d admitted %+v, want the first at its old place", invariant3, attempt, runs)
		}
		run := runs[0]
		if len(old) > 0 && run.Fence <= old[len(old)-1].Fence {
			t.Errorf("the fence went from %d to %d", old[len(old)-1].Fence, run.Fence)
		}
		if err := d.Start(ctx, run); err != nil {
			t.Fatal(err)
		}
		expire(t, d, run)
		reap(t, d, 1)
		old = append(old, run)
		for _, run := range old {
			checkLateWrites(t, d, run)
		}
		b := read(t, d, run)
		if attempt == berth.DefaultMaxAttempts {
			break
		}
		if attempt > 1 {
			if b.Phase != berth.PhaseNew || b.Queue.BlockedBy[0].Reason != berth.WaitBackOff || b.Queue.BlockedBy[0].Since == nil || b.Queue.Position != 0 || len(b.Namespaces.Names) != 0 {
				t.Errorf("after attempt %d it is %+v, want a back-off", attempt, b)
			}
			endBackOff(t, d.URL, run.Seq)
			dispatch(t, d, 0)
			b = read(t, d, run)
			b.Reason = "LeaseLost"
		}
		if b.Phase != berth.PhaseQueued || b.Attempt != attempt+1 || b.Reason != "LeaseLost" || !b.EnqueuedAt.Equal(*first.EnqueuedAt) || b.Queue.Position != 1 {
			t.Errorf("after attempt %d it is %+v", attempt, b)
		}
		if b.Slot != nil || b.ReadyAt != nil || b.StartedAt != nil || b.ExpiresAt != nil || b.Namespaces.Frozen != nil || b.Worker != "" || b.Progress != nil {
			t.Errorf("after attempt %d something of it is left: %+v", attempt, b)
		}
	}
	b := read(t, d, old[0])
	if b.Phase != berth.PhaseFailed || b.Reason != "LeaseLost" || b.Attempt != berth.DefaultMaxAttempts || b.CompletedAt == nil ||
		!strings.Contains(b.FailureReason, "LeaseLost: 3 of 3 attempts") || b.Slot != nil {
		t.Errorf("after the last attempt it is %+v", b)
	}
	if diff := cmp.Diff([]string{"second"}, names(dispatch(t, d, 1))); diff != "" {
		t.Errorf("whoever waited for it (-want +got):\n%s", diff)
	}
}

// endOfBackOff lets the time of a back-off pass and tells the dispatchers.
const endOfBackOff = `
	WITH over AS (UPDATE backups SET retry_at = clock_timestamp() WHERE seq = $1 AND phase = 'New' RETURNING cluster_id)
	SELECT pg_notify('berth_queue', cluster_id::text) FROM over`

func endBackOff(tb testing.TB, databaseURL string, seq int64) {
	tb.Helper()
	if _, err := connect(tb, databaseURL).Exec(context.Background(), endOfBackOff, seq); err != nil {
		tb.Fatal(err)
	}
}

// An orderly release costs no attempt and keeps the place.
func TestRelease(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	enqueue(t, d, request("first", "a"))
	enqueue(t, d, request("second", "a"))
	for range berth.DefaultMaxAttempts + 2 {
		run := dispatch(t, d, 1)[0]
		if err := d.Start(ctx, run); err != nil {
			t.Fatal(err)
		}
		if err := d.Release(ctx, run, "the worker goes away"); err != nil {
			t.Fatal(err)
		}
		checkLateWrites(t, d, run)
		b := read(t, d, run)
		if b.Name != "first" || b.Phase != berth.PhaseQueued || b.Attempt != 1 || b.Queue.Position != 1 || b.Message != "the worker goes away" {
			t.Errorf("it is %+v", b)
		}
	}
}

// A worker that did not hear that its transition was made makes it again: that is
// no loss of its lease, and changes nothing.
func TestTransitionWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	enqueue(t, d, request("first", "a"))
	run := dispatch(t, d, 1)[0]
	outcome := berth.Outcome{Phase: berth.PhasePartiallyFailed, Reason: "PartiallyFailed", Errors: 1}
	transitions := []struct {
		name string
		make func(berth.Run) error
	}{
		{"Start", func(run berth.Run) error { return d.Start(ctx, run) }},
		{"Finalize", func(run berth.Run) error { return d.Finalize(ctx, run, outcome) }},
		{"Finish", func(run berth.Run) error { return d.Finish(ctx, run, outcome) }},
	}
	stranger := run
	stranger.Fence--
	for _, transition := range transitions {
		if err := transition.make(run); err != nil {
			t.Fatalf("%s: %v", transition.name, err)
		}
		before := read(t, d, run)
		if err := transition.make(run); err != nil {
			t.Errorf("%s again: %v", transition.name, err)
		}
		if diff := cmp.Diff(before, read(t, d, run)); diff != "" {
			t.Errorf("%s again changed (-once +twice):\n%s", transition.name, diff)
		}
		if err := transition.make(stranger); !errors.Is(err, berth.ErrLeaseLost) {
			t.Errorf("%s by another fence: %v, want %v", transition.name, err, berth.ErrLeaseLost)
		}
	}
	if err := d.Start(ctx, run); !errors.Is(err, berth.ErrLeaseLost) {
		t.Errorf("Start after the end: %v, want %v", err, berth.ErrLeaseLost)
	}
	if err := d.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"}); !errors.Is(err, berth.ErrLeaseLost) {
		t.Errorf("another end: %v, want %v", err, berth.ErrLeaseLost)
	}
}

// Nothing follows the end of a run, whoever asks.
func TestNothingIsWrittenAfterTheEnd(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	enqueue(t, d, request("b", "a"))
	run := dispatch(t, d, 1)[0]
	for _, phase := range berth.Phases() {
		if !phase.Terminal() {
			if err := d.Finish(ctx, run, berth.Outcome{Phase: phase}); err == nil {
				t.Errorf("a run ended as %s", phase)
			}
		}
	}
	finish(t, d, run)
	checkLateWrites(t, d, run)
}

// A namespace that came while a backup ran belongs to it when it is back in the
// queue, and one that went does not.
func TestBackInTheQueueResolvesAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	back := map[string]func(*dbtest.Database, berth.Run) error{
		"reaped": func(d *dbtest.Database, run berth.Run) error {
			expire(t, d, run)
			_, err := d.Reap(ctx, 0)
			return err
		},
		"released": func(d *dbtest.Database, run berth.Run) error { return d.Release(ctx, run, "") },
	}
	for name, putBack := range back {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newQueue(t, 2, "web-1", "web-2", "kept")
			enqueue(t, d, request("pattern", "web-*"))
			enqueue(t, d, berth.Request{Name: "but", Spec: berth.Spec{ExcludedNamespaces: []string{"kept"}}})
			run := dispatch(t, d, 1)[0]
			if err := d.ChangeNamespaces(ctx, berth.DefaultCluster, []berth.Namespace{
				{Name: "web-1"}, {Name: "web-2", Exists: true, Excluded: true}, {Name: "web-3", Exists: true},
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"web-1", "web-2"}, read(t, d, run).Namespaces.Frozen); diff != "" {
				t.Errorf("while it runs (-want +got):\n%s", diff)
			}
			if err := putBack(d, run); err != nil {
				t.Fatal(err)
			}
			checkClaims(t, d, read(t, d, run), "web-3")
			run = dispatch(t, d, 1)[0]
			if diff := cmp.Diff([]string{"web-3"}, run.Contents.Names); diff != "" {
				t.Errorf("%s again (-want +got):\n%s", run.Name, diff)
			}
			finish(t, d, run)

			// The exclude label makes and unmakes a hole in an everything-but.
			run = dispatch(t, d, 1)[0]
			if diff := cmp.Diff([]string{"kept", "web-2"}, read(t, d, run).Namespaces.Except); diff != "" {
				t.Errorf("%s does not claim (-want +got):\n%s", run.Name, diff)
			}
			if err := d.ChangeNamespaces(ctx, berth.DefaultCluster, []berth.Namespace{{Name: "web-2", Exists: true}}); err != nil {
				t.Fatal(err)
			}
			if err := putBack(d, run); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"kept"}, read(t, d, run).Namespaces.Except); diff != "" {
				t.Errorf("%s does not claim, back in the queue (-want +got):\n%s", run.Name, diff)
			}
		})
	}
}

// A backup that waits for a running one behind it does not wait for it any more
// when that one is back at its place: they would wait for each other for ever.
func TestNoTwoWaitForEachOther(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	back := map[string]func(*dbtest.Database, berth.Run) error{
		"reaped": func(d *dbtest.Database, run berth.Run) error {
			expire(t, d, run)
			_, err := d.Reap(ctx, 0)
			return err
		},
		"released": func(d *dbtest.Database, run berth.Run) error { return d.Release(ctx, run, "") },
	}
	for name, putBack := range back {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newQueue(t, 2, "busy")
			enqueue(t, d, request("holds", "busy"))
			holds := dispatch(t, d, 1)[0]
			enqueue(t, d, request("early", "new-*", "busy"))
			enqueue(t, d, request("late", "new-1"))
			late := dispatch(t, d, 1)[0]
			// Only now do the two overlap, the later one running.
			if err := appear(d, "new-1"); err != nil {
				t.Fatal(err)
			}
			dispatch(t, d, 0)
			if diff := cmp.Diff(map[string]string{"early": "RunningOverlap late new-1"}, waits(t, d)); diff != "" {
				t.Fatalf("while it runs (-want +got):\n%s", diff)
			}
			if err := putBack(d, late); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"early": "RunningOverlap holds busy", "late": "EarlierQueuedOverlap early new-1"}
			if diff := cmp.Diff(want, waits(t, d)); diff != "" {
				t.Errorf("%s: at once (-want +got):\n%s", invariant5, diff)
			}
			dispatch(t, d, 2)
			if diff := cmp.Diff(want, waits(t, d)); diff != "" {
				t.Errorf("%s: marked (-want +got):\n%s", invariant5, diff)
			}
			finish(t, d, holds)
			for _, next := range []string{"early", "late"} {
				runs := dispatch(t, d, 2)
				if diff := cmp.Diff([]string{next}, names(runs)); diff != "" {
					t.Fatalf("%s: admitted (-want +got):\n%s", invariant4, diff)
				}
				finish(t, d, runs[0])
			}
		})
	}
}

// A worker that is told that it renewed keeps what it renewed, also when the
// reaper had seen the lease expired.
func TestReapWaitsForRenewal(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a")
	enqueue(t, d, request("b", "a"))
	run := dispatch(t, d, 1)[0]
	expire(t, d, run)
	h := hold(t, d.URL)
	h.exec("UPDATE leases SET expires_at = clock_timestamp() + interval '1 hour' WHERE seq = $1", run.Seq)
	var taken int
	reaped := during(func() (err error) {
		taken, err = d.Reap(context.Background(), 0)
		return err
	})
	awaitBlocked(t, d.URL, 1)
	h.exec("commit")
	if err := reaped(); err != nil || taken != 0 {
		t.Fatalf("%d backups were reaped, %v", taken, err)
	}
	finish(t, d, run)
}

// The reaper takes what is left when one of many workers comes back.
func TestReapManyAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const backups = 120 // more than one transaction takes
	d := newQueue(t, backups)
	for i := range backups {
		enqueue(t, d, request(fmt.Sprintf("b%d", i), fmt.Sprintf("ns%d", i)))
	}
	runs := dispatch(t, d, backups)
	if len(runs) != backups {
		t.Fatalf("%d were admitted", len(runs))
	}
	expire(t, d, runs...)
	if err := race(
		func() error { _, err := d.Reap(ctx, 0); return err },
		func() error { _, err := d.Reap(ctx, 0); return err },
		func() error {
			_, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour, Held: runs[backups/2:]})
			return err
		},
	); err != nil {
		t.Fatal(err)
	}
	lost, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour, Held: runs})
	if err != nil {
		t.Fatal(err)
	}
	q, err := d.Queue(ctx, berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Waiting) != len(lost) || len(q.Running) != backups-len(lost) || len(lost) < backups/2 {
		t.Errorf("%d leases are lost, %d backups wait and %d run", len(lost), len(q.Waiting), len(q.Running))
	}
	checkNoRetries(t, d.Store)
}

// An attempt that is given up is tried again after a back-off, from the first time
// on, counts as a lost lease does, and has failed after the last.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	enqueue(t, d, request("unlucky", "a"))
	enqueue(t, d, request("next", "a"))
	for attempt := 1; ; attempt++ {
		run := dispatch(t, d, 1)[0]
		if run.Name != "unlucky" || run.Attempt != attempt {
			t.Fatalf("%s runs, in attempt %d", run.Name, run.Attempt)
		}
		if err := d.Start(ctx, run); err != nil {
			t.Fatal(err)
		}
		if err := d.GiveUp(ctx, run, "StorageLost", "the store is away"); err != nil {
			t.Fatal(err)
		}
		checkLateWrites(t, d, run)
		b := read(t, d, run)
		if attempt == berth.DefaultMaxAttempts {
			if b.Phase != berth.PhaseFailed || b.Reason != "StorageLost" || b.FailureReason != "StorageLost: the store is away (attempt 3, 3 of 3 lost)" {
				t.Errorf("after the last attempt it is %s, %s: %s", b.Phase, b.Reason, b.FailureReason)
			}
			break
		}
		if b.Phase != berth.PhaseNew || b.Reason != "StorageLost" || b.Message != "the store is away" || b.Attempt != attempt+1 || b.Queue.BlockedBy[0].Reason != berth.WaitBackOff {
			t.Errorf("after attempt %d it is %+v", attempt, b)
		}
		// The one that waited behind it has the namespace meanwhile.
		if attempt == 1 {
			other := dispatch(t, d, 1)[0]
			if err := d.Finish(ctx, other, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Test"}); err != nil {
				t.Fatal(err)
			}
		}
		exec(t, d, "UPDATE backups SET retry_at = clock_timestamp() WHERE retry_at IS NOT NULL")
	}
}
