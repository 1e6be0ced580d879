package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

// ran makes past runs of a cluster: so many, each of so many seconds.
func ran(tb testing.TB, d *dbtest.Database, name string, count int, seconds float64, namespaces ...string) {
	tb.Helper()
	ctx := context.Background()
	for i := range count {
		b := enqueue(tb, d, request(nth(name, i), namespaces...))
		run := dispatch(tb, d, 1)[0]
		if run.ID != b.ID {
			tb.Fatalf("admitted %s", run.Name)
		}
		if err := d.Start(ctx, run); err != nil {
			tb.Fatal(err)
		}
		if err := d.Finalize(ctx, run, berth.Outcome{}); err != nil {
			tb.Fatal(err)
		}
		if err := d.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseCompleted, Reason: "Completed"}); err != nil {
			tb.Fatal(err)
		}
		exec(tb, d, "UPDATE backups SET ready_at = completed_at - make_interval(secs => $2) WHERE seq = $1", run.Seq, seconds)
	}
}

// A waiting backup says when it is predicted to start, from what the last runs of
// its like took; without a past run it says that there is none.
func TestETA(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a", "b")
	enqueue(t, d, request("runs", "a"))
	first := dispatch(t, d, 1)[0]
	b := enqueue(t, d, request("blind", "a"))
	if eta := b.Queue.ETA; eta == nil || eta.StartP50 != nil || eta.StartP90 != nil || eta.Basis != berth.BasisNoHistory {
		t.Errorf("without a past run: %+v", eta)
	}
	// Runs that fail tell nothing.
	for _, run := range []berth.Run{first, {}} {
		if run.Seq == 0 {
			run = dispatch(t, d, 1)[0]
		}
		if err := d.Finish(context.Background(), run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"}); err != nil {
			t.Fatal(err)
		}
	}
	ran(t, d, "past", 4, 60, "a")
	enqueue(t, d, request("now", "a"))
	began := time.Now()
	dispatch(t, d, 1)
	second := enqueue(t, d, request("second", "a"))
	third := enqueue(t, d, request("third", "a", "b"))
	for _, w := range []struct {
		backup  berth.Backup
		seconds float64
	}{{second, 60}, {third, 120}} {
		eta := w.backup.Queue.ETA
		if eta == nil || eta.StartP50 == nil || eta.StartP90 == nil {
			t.Fatalf("%s: %+v", w.backup.Name, eta)
		}
		// What runs was admitted a moment ago.
		if in := eta.StartP50.Sub(began).Seconds(); in < w.seconds-10 || in > w.seconds+20 || eta.StartP90.Before(*eta.StartP50) {
			t.Errorf("%s is predicted to start in %.1fs, want %.0fs: %+v", w.backup.Name, in, w.seconds, eta)
		}
	}
	if second.Queue.ETA.Basis != berth.BasisNamespaces || second.Queue.ETA.Samples != 4 {
		t.Errorf("it rests on %+v", second.Queue.ETA)
	}
}

// The first prediction is kept, and the share that was right can be asked for.
func TestPredictionsAreKept(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	ran(t, d, "past", 3, 60, "a")
	enqueue(t, d, request("runs", "a"))
	dispatch(t, d, 1)
	enqueue(t, d, request("waits", "a"))
	for range 2 {
		if err := d.Predict(ctx, berth.DefaultCluster); err != nil {
			t.Fatal(err)
		}
	}
	type kept struct{ Name, Basis string }
	found := collect[kept](t, connect(t, d.URL), "SELECT b.name, p.basis FROM predictions p JOIN backups b USING (seq) WHERE p.start_p50 <= p.start_p90")
	if diff := cmp.Diff([]kept{{"waits", "namespaces"}}, found); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// An explanation has everything that is in the way, not the witness alone, and
// how one thing waits for the other.
func TestExplain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a", "b", "c")
	enqueue(t, d, request("runs", "a"))
	run := dispatch(t, d, 1)[0]
	enqueue(t, d, request("second", "a", "b"))
	enqueue(t, d, request("third", "c"))
	last := enqueue(t, d, request("last", "b", "c", "a"))
	mustSettings(t)(d.Pause(ctx, berth.DefaultCluster, berth.PauseRequest{Reason: "upgrade"}))
	e, err := d.Explain(ctx, last.ID)
	if err != nil {
		t.Fatal(err)
	}
	type blocker struct {
		Reason berth.WaitReason
		Name   string
		Shared []string
	}
	var found []blocker
	for _, b := range e.Blockers {
		found = append(found, blocker{b.Reason, nameOf(b.Backup), b.Namespaces})
	}
	want := []blocker{
		{berth.WaitQueuePaused, "", nil},
		{berth.WaitRunningOverlap, "runs", []string{"a"}},
		{berth.WaitEarlierQueuedOverlap, "second", []string{"a", "b"}},
		{berth.WaitEarlierQueuedOverlap, "third", []string{"c"}},
		{berth.WaitNoFreeSlot, "", nil},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("in its way (-want +got):\n%s", diff)
	}
	if len(e.Chain) == 0 || e.Chain[0].Backup.Name != "third" {
		t.Errorf("the chain: %+v", e.Chain)
	}
	if e.Backup.ID != last.ID || e.Backup.Queue.Position != 3 || e.ComputedAt.IsZero() {
		t.Errorf("explained: %+v", e)
	}
	if e, err := d.Explain(ctx, run.ID); err != nil || len(e.Blockers) > 0 || e.Backup.Phase != berth.PhaseReadyToStart {
		t.Errorf("one that runs: %+v, %v", e, err)
	}
}

// rows counts what the database has: what changes nothing leaves it as it is.
func rows(tb testing.TB, d *dbtest.Database) any {
	type counts struct{ Backups, Events, Claims, Namespaces, Outbox int }
	return collect[counts](tb, connect(tb, d.URL), `
		SELECT (SELECT count(*) FROM backups) AS backups, (SELECT count(*) FROM events) AS events, (SELECT count(*) FROM claims) AS claims,
		       (SELECT count(*) FROM namespaces) AS namespaces, (SELECT count(*) FROM mirror_outbox) AS outbox`)
}

// A dry run tells what the real one then shows, refuses what it refuses, and
// changes nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 2, "a", "b", "web-1")
	ran(t, d, "past", 2, 30, "a")
	enqueue(t, d, request("runs", "a"))
	dispatch(t, d, 1)
	enqueue(t, d, request("waits", "a"))
	for _, r := range []berth.Request{
		request("free", "b", "new"), request("overlaps", "a", "b"), request("pattern", "web-*"), request("all"),
		{Name: "but", Spec: spec(nil, []string{"a"})}, {Name: "urgent", Priority: 60, Spec: spec([]string{"a"}, nil)},
		{Name: "later", NotBefore: new(time.Now().Add(time.Hour)), Spec: spec([]string{"a"}, nil)},
	} {
		before := rows(t, d)
		p, err := d.DryRun(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, rows(t, d)); diff != "" {
			t.Errorf("the dry run of %s changed rows (-before +after):\n%s", r.Name, diff)
		}
		b := enqueue(t, d, r)
		if diff := cmp.Diff(b.Namespaces, p.Namespaces, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s claims (-real +predicted):\n%s", r.Name, diff)
		}
		if p.Queue.Position != b.Queue.Position || p.Queue.OverlappingAhead != b.Queue.OverlappingAhead || p.Starts != (b.Queue.BlockedBy[0].Reason == berth.WaitDispatch) {
			t.Errorf("%s: predicted %+v, it is %+v", r.Name, p.Queue, b.Queue)
		}
		if (p.Queue.ETA == nil) != (b.Queue.ETA == nil) || p.Queue.ETA.Basis != b.Queue.ETA.Basis {
			t.Errorf("%s: predicted %+v, it is %+v", r.Name, p.Queue.ETA, b.Queue.ETA)
		}
		if _, err := d.Cancel(ctx, b.ID, ""); err != nil {
			t.Fatal(err)
		}
	}
	for what, want := range map[string]struct {
		request berth.Request
		code    berth.Code
	}{
		"a taken name":    {request("waits", "a"), berth.CodeNameTaken},
		"a bad pattern":   {request("bad", "**"), berth.CodeValidationFailed},
		"no such cluster": {berth.Request{Cluster: "nowhere", Name: "x"}, berth.CodeValidationFailed},
	} {
		if _, err := d.DryRun(ctx, want.request); berth.CodeOf(err) != want.code {
			t.Errorf("%s: %v, want %s", what, err, want.code)
		}
	}
}

// A simulation tells how the queue would go on, and changes nothing.
func TestSimulate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a", "b", "c")
	ran(t, d, "past", 2, 30, "a")
	enqueue(t, d, request("runs", "a"))
	dispatch(t, d, 1)
	second := enqueue(t, d, request("second", "b"))
	enqueue(t, d, request("third", "b", "c"))
	before := rows(t, d)
	f, err := d.Simulate(ctx, berth.SimulateRequest{
		Cluster: berth.DefaultCluster, ConcurrentBackups: new(2), Cancel: []uuid.UUID{second.ID}, Add: []berth.Request{request("added", "c")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, rows(t, d)); diff != "" {
		t.Errorf("it changed rows (-before +after):\n%s", diff)
	}
	type foreseen struct {
		Name   string
		Added  bool
		Starts bool
		Reason berth.WaitReason
	}
	var found []foreseen
	for _, w := range f.Waiting {
		found = append(found, foreseen{w.Backup.Name, w.Added, w.Starts, w.BlockedBy.Reason})
	}
	want := []foreseen{{"third", false, true, berth.WaitDispatch}, {"added", true, false, berth.WaitEarlierQueuedOverlap}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("foreseen (-want +got):\n%s", diff)
	}
	third := f.Waiting[0]
	if third.Now == nil || third.Now.StartP50 == nil || third.ETA.StartP50 == nil || !third.ETA.StartP50.Before(*third.Now.StartP50) {
		t.Errorf("with two at once it starts %+v, as it is %+v", third.ETA, third.Now)
	}
	_, err = d.Simulate(ctx, berth.SimulateRequest{
		Cluster: berth.DefaultCluster, ConcurrentBackups: new(0), Cancel: []uuid.UUID{{}}, Add: []berth.Request{request("x", "**")},
	})
	if berth.CodeOf(err) != berth.CodeValidationFailed {
		t.Errorf("a change that cannot be made: %v", err)
	}
}

func nameOf(ref *berth.BackupRef) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}
