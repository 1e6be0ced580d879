package db_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

func checkWaits(tb testing.TB, d *dbtest.Database, what string, want map[string]string) {
	tb.Helper()
	if diff := cmp.Diff(want, waits(tb, d)); diff != "" {
		tb.Errorf("%s: %s (-want +got):\n%s", invariant5, what, diff)
	}
}

// The reason is true before anybody has looked at the queue, after a marking
// pass that admits nothing, and after a dequeue.
func TestReasons(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a", "b", "c", "web-1")
	if err := d.Retire(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	enqueue(t, d, request("first", "a"))
	enqueue(t, d, request("second", "b", "a"))
	enqueue(t, d, request("third", "b"))
	enqueue(t, d, request("free", "c"))
	enqueue(t, d, request("all"))
	enqueue(t, d, request("after", "web-*"))
	enqueue(t, d, request("none", ""))
	nobody := map[string]string{}
	for _, name := range []string{"first", "second", "third", "free", "all", "after", "none"} {
		nobody[name] = "NoWorker"
	}
	checkWaits(t, d, "no worker", nobody)
	dispatch(t, d, 0)
	checkWaits(t, d, "no worker, marked", nobody)
	if _, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"first": "Dispatch", "second": "EarlierQueuedOverlap first a", "third": "EarlierQueuedOverlap second b", "free": "Dispatch",
		"all": "EarlierQueuedOverlap free c", "after": "EarlierQueuedOverlap all web-1", "none": "Dispatch",
	}
	checkWaits(t, d, "marked", want)
	runs := dispatch(t, d, 1)
	delete(want, "first")
	want["second"], want["free"], want["none"] = "RunningOverlap first a", "NoFreeSlot", "NoFreeSlot"
	checkWaits(t, d, "one runs", want)
	q, err := d.Queue(ctx, berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range q.Waiting {
		blocker := b.Queue.BlockedBy[0]
		if blocker.Since == nil || (blocker.Setting == "concurrentBackups=1") != (blocker.Reason == berth.WaitNoFreeSlot) {
			t.Errorf("%s waits for %+v", b.Name, blocker)
		}
	}

	// What ends stands in nobody's way from then on, whoever looks when.
	finish(t, d, runs[0])
	want["second"], want["free"], want["none"] = "Dispatch", "Dispatch", "Dispatch"
	checkWaits(t, d, "it ended", want)
	dispatch(t, d, 0)
	checkWaits(t, d, "it ended, marked", want)

	// A worker that is silent for longer than its lease is none.
	if _, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: -time.Second}); err != nil {
		t.Fatal(err)
	}
	delete(nobody, "first")
	checkWaits(t, d, "the worker is silent", nobody)
}

// Where each worker has a cap, a place is free only while one of them has room; a
// worker that takes nothing more is none. Dry runs say the same.
func TestReasonsTellTheWorkersRoom(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 5, "a", "b", "c")
	says := func(worker string, most *int) {
		t.Helper()
		if _, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: worker, MaxBackups: most, LeaseTTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	// starts is whether one that came now would start: it stands behind the one that waits.
	check := func(when string, want berth.Blocker, basis berth.Basis, starts bool) {
		t.Helper()
		ignore := cmpopts.IgnoreFields(berth.Blocker{}, "Since")
		q, err := d.Queue(ctx, berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		waiting := q.Waiting[0]
		if diff := cmp.Diff([]berth.Blocker{want}, waiting.Queue.BlockedBy, ignore); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		if got := waiting.Queue.BlockedBy[0]; got.Since == nil && want.Reason == berth.WaitNoFreeSlot {
			t.Errorf("%s: %+v, since when is not told", when, got)
		}
		if waiting.Queue.ETA == nil || waiting.Queue.ETA.Basis != basis {
			t.Errorf("%s: the ETA is %+v, want basis %q", when, waiting.Queue.ETA, basis)
		}
		e, err := d.Explain(ctx, waiting.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]berth.Blocker{want}, e.Blockers, ignore); diff != "" {
			t.Errorf("%s, explained (-want +got):\n%s", when, diff)
		}
		p, err := d.DryRun(ctx, request("thought", "c"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]berth.Blocker{want}, p.Queue.BlockedBy, ignore); diff != "" {
			t.Errorf("%s, a dry run (-want +got):\n%s", when, diff)
		}
		if p.Starts != starts {
			t.Errorf("%s, a dry run starts: %v", when, p.Starts)
		}
	}
	dispatchOf := berth.Blocker{Reason: berth.WaitDispatch}
	full := func(most string) berth.Blocker { return berth.Blocker{Reason: berth.WaitNoFreeSlot, Setting: most} }

	says("w", new(1))
	enqueue(t, d, request("first", "a"))
	check("a worker with room", dispatchOf, berth.BasisImmediate, false)
	run := dispatch(t, d, 1)[0]
	enqueue(t, d, request("second", "b"))
	check("the only worker is full", full("maxBackups=1"), berth.BasisNoHistory, false)
	says("another", new(0))
	check("another one takes nothing more", full("maxBackups=1"), berth.BasisNoHistory, false)
	says("another", new(1))
	check("another one has room", dispatchOf, berth.BasisImmediate, false)
	says("another", nil)
	check("another one takes any number", dispatchOf, berth.BasisImmediate, true)
	if err := d.SetConcurrentBackups(ctx, berth.DefaultCluster, 1); err != nil {
		t.Fatal(err)
	}
	check("the limit is reached first", full("concurrentBackups=1"), berth.BasisNoHistory, false)
	if err := d.SetConcurrentBackups(ctx, berth.DefaultCluster, 5); err != nil {
		t.Fatal(err)
	}
	says("w", new(0))
	says("another", new(0))
	check("both take nothing more", berth.Blocker{Reason: berth.WaitNoWorker}, berth.BasisNoWorker, false)
	says("w", new(1))
	check("the full one is back", full("maxBackups=1"), berth.BasisNoHistory, false)
	finish(t, d, run)
	check("it ended", dispatchOf, berth.BasisImmediate, false)
}

// Two wide backups share the namespaces that the cluster has, and not what was
// there once or was only named; where none is left they still share what is to
// come. A namespace that a backup names is shared whether it exists or not.
func TestNamespacesThatTwoShare(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	but := func(excludes ...string) berth.Spec { return spec(nil, excludes) }
	for name, test := range map[string]struct {
		first, second berth.Spec
		want          string
	}{
		"everything twice":                    {spec(nil, nil), spec(nil, nil), " a b kept-out"},
		"everything and everything but":       {spec(nil, nil), but("a"), " b"},
		"everything but and everything":       {but("b", "ghost"), spec(nil, nil), " a"},
		"everything but, twice":               {but("a"), but("b"), ""},
		"everything but a pattern":            {but("a*"), but("g*"), " b"},
		"everything and a name without any":   {spec(nil, nil), spec([]string{"ghost"}, nil), " ghost"},
		"everything and one that went":        {spec([]string{"went", "a"}, nil), spec(nil, nil), " a went"},
		"two that name what is not there yet": {spec([]string{"ghost", "spirit"}, nil), spec([]string{"ghost", "b"}, nil), " ghost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newQueue(t, 1, "a", "b", "went")
			change(t, d, gone("went"), labelled("kept-out"))
			enqueue(t, d, request("elsewhere", "ghost", "spirit", "other"))
			for _, run := range dispatch(t, d, 1) {
				finish(t, d, run)
			}
			enqueue(t, d, berth.Request{Name: "first", Spec: test.first})
			second := enqueue(t, d, berth.Request{Name: "second", Spec: test.second})
			check := func(reason string) {
				t.Helper()
				want := reason + " first" + test.want
				if got := waits(t, d)["second"]; got != want {
					t.Errorf("it waits for %q, want %q", got, want)
				}
				e, err := d.Explain(ctx, second.ID)
				if err != nil || len(e.Blockers) == 0 {
					t.Fatalf("explained: %+v, %v", e.Blockers, err)
				}
				got := string(e.Blockers[0].Reason) + " " + e.Blockers[0].Backup.Name
				for _, n := range e.Blockers[0].Namespaces {
					got += " " + n
				}
				if got != want {
					t.Errorf("explained is %q, want %q", got, want)
				}
			}
			check("EarlierQueuedOverlap")
			dispatch(t, d, 1)
			check("RunningOverlap")
		})
	}
}

// Whatever a backup waits for, it says since when, and so does its explanation of
// every setting.
func TestSinceWhen(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a", "b")
	if _, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	since := func(b berth.Backup, want berth.WaitReason) time.Time {
		t.Helper()
		b, err := d.Backup(ctx, b.ID)
		if err != nil {
			t.Fatal(err)
		}
		blocker := b.Queue.BlockedBy[0]
		if blocker.Reason != want || blocker.Since == nil {
			t.Fatalf("%s waits for %+v, want %s since some time", b.Name, blocker, want)
		}
		e, err := d.Explain(ctx, b.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, blocker := range e.Blockers {
			if blocker.Backup == nil && blocker.Since == nil {
				t.Errorf("%s is explained by %+v", b.Name, blocker)
			}
		}
		return *blocker.Since
	}
	enqueue(t, d, request("first", "a"))
	dispatch(t, d, 1)
	free := enqueue(t, d, request("free", "b"))
	if got := since(free, berth.WaitNoFreeSlot); !got.Equal(*free.EnqueuedAt) {
		t.Errorf("no free slot since %s, asked for at %s", got, free.EnqueuedAt)
	}

	// The place that opens goes to another one.
	enqueue(t, d, berth.Request{Name: "urgent", Priority: 60, Spec: spec([]string{""}, nil)})
	if err := d.SetConcurrentBackups(ctx, berth.DefaultCluster, 2); err != nil {
		t.Fatal(err)
	}
	urgent := dispatch(t, d, 1)[0]
	if got := since(free, berth.WaitNoFreeSlot); urgent.Name != "urgent" || !got.Equal(urgent.ReadyAt) {
		t.Errorf("no free slot since %s, %s took the last at %s", got, urgent.Name, urgent.ReadyAt)
	}
	// A limit that is lowered where no place was free changes nothing; one that is
	// lowered where one was counts from then.
	limit := func(limit int) {
		t.Helper()
		if err := d.SetConcurrentBackups(ctx, berth.DefaultCluster, limit); err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	if got := since(free, berth.WaitNoFreeSlot); !got.Equal(urgent.ReadyAt) {
		t.Errorf("no free slot since %s, %s took the last at %s", got, urgent.Name, urgent.ReadyAt)
	}
	limit(3)
	limit(2)
	if got := since(free, berth.WaitNoFreeSlot); !got.After(urgent.ReadyAt) {
		t.Errorf("no free slot since %s, when one was", got)
	}
	// Who ran waits from when it does not any more.
	if err := d.Release(ctx, urgent, "the worker goes away"); err != nil {
		t.Fatal(err)
	}
	limit(1)
	if got := since(berth.Backup{ID: urgent.ID}, berth.WaitNoFreeSlot); !got.After(urgent.ReadyAt) {
		t.Errorf("no free slot since %s, when it ran", got)
	}

	// Who waits for the same one as before waits for it since then, whatever else
	// changed of either.
	behind := enqueue(t, d, request("behind", "a", "c-*"))
	dispatch(t, d, 0)
	waits := since(behind, berth.WaitRunningOverlap)
	for what, change := range map[string]func() error{
		"its deadline": func() error {
			_, err := d.Edit(ctx, behind.ID, berth.Edit{StartDeadline: new(time.Now().Add(time.Hour))})
			return err
		},
		"its priority":      func() error { _, err := d.Edit(ctx, behind.ID, berth.Edit{Priority: new(1)}); return err },
		"what it may claim": func() error { return appear(d, "c-1") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if got := since(behind, berth.WaitRunningOverlap); !got.Equal(waits) {
			t.Errorf("%s changed: waits since %s, and waited since %s", what, got, waits)
		}
		dispatch(t, d, 0)
		if got := since(behind, berth.WaitRunningOverlap); !got.Equal(waits) {
			t.Errorf("%s changed, and it was looked at: waits since %s, and waited since %s", what, got, waits)
		}
	}

	// One that is put off waits for that from then on.
	tonight := time.Now().Add(time.Hour)
	if _, err := d.Edit(ctx, free.ID, berth.Edit{NotBefore: &tonight}); err != nil {
		t.Fatal(err)
	}
	if got := since(free, berth.WaitNotBefore); !got.After(*free.EnqueuedAt) {
		t.Errorf("put off since %s, asked for at %s", got, free.EnqueuedAt)
	}
	later, err := d.Enqueue(ctx, berth.Request{Name: "later", NotBefore: &tonight, Spec: spec([]string{"b"}, nil)})
	if err != nil {
		t.Fatal(err)
	}
	if got := since(later, berth.WaitNotBefore); !got.Equal(later.CreatedAt) {
		t.Errorf("not due since %s, asked for at %s", got, later.CreatedAt)
	}
	last := enqueue(t, d, request("last", "c-*"))
	if _, err := d.Pause(ctx, berth.DefaultCluster, berth.PauseRequest{By: "ops"}); err != nil {
		t.Fatal(err)
	}
	since(last, berth.WaitQueuePaused)
	since(later, berth.WaitNotBefore)
	// Who is in the way has been so since then, though the pause comes first.
	since(behind, berth.WaitQueuePaused)
	e, err := d.Explain(ctx, behind.ID)
	if err != nil {
		t.Fatal(err)
	}
	if b := e.Blockers[1]; b.Reason != berth.WaitRunningOverlap || b.Since == nil || !b.Since.Equal(waits) {
		t.Errorf("behind a pause: %+v, want it since %s", b, waits)
	}
}

// The same before anybody has looked: the reason is then what the rule finds.
func TestReasonsBeforeAnyMarking(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a", "b")
	enqueue(t, d, request("first", "a"))
	enqueue(t, d, request("second", "a", "b"))
	enqueue(t, d, berth.Request{Name: "but", Spec: spec(nil, []string{"a"})})
	enqueue(t, d, request("all"))
	checkWaits(t, d, "nobody has looked", map[string]string{
		"first": "Dispatch", "second": "EarlierQueuedOverlap first a", "but": "EarlierQueuedOverlap second b", "all": "EarlierQueuedOverlap but b",
	})
	dispatch(t, d, 1)
	enqueue(t, d, request("late", "a"))
	enqueue(t, d, request("none", ""))
	checkWaits(t, d, "one runs", map[string]string{
		"second": "RunningOverlap first a", "but": "EarlierQueuedOverlap second b", "all": "EarlierQueuedOverlap but b",
		"late": "EarlierQueuedOverlap all a", "none": "NoFreeSlot",
	})
}

// An event says what a backup waits for whenever its witness changes.
func TestWitnessEvents(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 2, "a", "b")
	enqueue(t, d, request("first", "a"))
	enqueue(t, d, request("second", "a", "b"))
	enqueue(t, d, request("third", "b"))
	first := dispatch(t, d, 2)[0]
	dispatch(t, d, 2)
	finish(t, d, first)
	dispatch(t, d, 2)
	type waited struct{ Name, Reason, Blocker string }
	found := collect[waited](t, connect(t, d.URL), `
		SELECT b.name, e.reason, w.name AS blocker FROM events e JOIN backups b USING (seq) LEFT JOIN backups w ON w.seq = e.blocker
		 WHERE e.from_phase = 'Queued' AND e.to_phase = 'Queued' ORDER BY e.id`)
	want := []waited{{"second", "RunningOverlap", "first"}, {"third", "EarlierQueuedOverlap", "second"}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// dispatchAll dequeues until nothing more is admitted.
func dispatchAll(tb testing.TB, d *dbtest.Database) (admitted int) {
	tb.Helper()
	for {
		runs := dispatch(tb, d, manyWatchers)
		if len(runs) == 0 {
			return admitted
		}
		admitted += len(runs)
	}
}

// manyWatchers is more than four times the 128 that one transaction releases.
const manyWatchers = 600

// Whoever waited for a backup that ended is looked at again, also where one
// transaction does not release them all, and says nothing false meanwhile.
func TestManyWatchersAreReleased(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1)
	enqueue(t, d, request("all"))
	all := dispatch(t, d, 1)[0]
	after := map[string]string{}
	for i := range manyWatchers {
		name := fmt.Sprintf("b%d", i)
		enqueue(t, d, request(name, name))
		after[name] = "Dispatch"
	}
	dispatch(t, d, 0)
	finish(t, d, all)
	checkWaits(t, d, "it ended", after)
	if err := d.SetConcurrentBackups(context.Background(), berth.DefaultCluster, manyWatchers+1); err != nil {
		t.Fatal(err)
	}
	if admitted := dispatchAll(t, d); admitted != manyWatchers {
		t.Errorf("%s: %d were admitted, want %d", invariant4, admitted, manyWatchers)
	}
}

// The same where the backup in the way shrinks: a pattern that could not be
// resolved claimed everything.
func TestManyWatchersOfAClaimThatShrinks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := dbtest.New(t)
	if err := d.SetStorageLocation(ctx, berth.StorageLocation{Cluster: berth.DefaultCluster, Name: berth.DefaultStorageLocation, URL: "file:///data"}); err != nil {
		t.Fatal(err)
	}
	if err := d.SetConcurrentBackups(ctx, berth.DefaultCluster, manyWatchers+1); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	enqueue(t, d, request("pattern", "web-*"))
	after := map[string]string{"pattern": "Dispatch"}
	for i := range manyWatchers {
		name := fmt.Sprintf("b%d", i)
		enqueue(t, d, request(name, name))
		after[name] = "Dispatch"
	}
	enqueue(t, d, request("same", "web-1"))
	after["same"] = "EarlierQueuedOverlap pattern web-1"
	dispatch(t, d, 0)
	if err := d.SyncNamespaces(ctx, berth.DefaultCluster, []berth.Namespace{present("web-1")}); err != nil {
		t.Fatal(err)
	}
	checkWaits(t, d, "the claim shrank", after)
	if admitted := dispatchAll(t, d); admitted != manyWatchers+1 {
		t.Errorf("%s: %d were admitted, want %d", invariant4, admitted, manyWatchers+1)
	}
}

// A backup whose scope cannot be resolved is looked at as others: those behind it
// that nothing was in the way of are told at once that it is, and nobody looks at
// it again before the namespaces are known. Until then it waits for those alone,
// also where a backup is in its way.
func TestOneThatCannotBeResolvedIsLookedAt(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)
	exec(t, d, "UPDATE clusters SET inventory_synced_at = NULL")
	enqueue(t, d, request("runs", "web-0"))
	run := dispatch(t, d, 1)[0]
	for _, name := range []string{"a", "b", "web-1"} {
		enqueue(t, d, request(name, name))
	}
	dispatch(t, d, 0)
	enqueue(t, d, berth.Request{Name: "pattern", Priority: 1, Spec: spec([]string{"web-*"}, nil)})
	conn := connect(t, d.Direct)
	marks := func() map[string][]string {
		t.Helper()
		type mark struct{ Name, Reason, Witness string }
		found := map[string][]string{}
		for _, m := range collect[mark](t, conn, `
			SELECT b.name, e.reason, coalesce(w.name, '') AS witness
			  FROM events e JOIN backups b USING (seq) LEFT JOIN backups w ON w.seq = e.blocker
			 WHERE e.from_phase = 'Queued' AND e.to_phase = 'Queued' ORDER BY e.id`) {
			found[m.Name] = append(found[m.Name], m.Reason+" "+m.Witness)
		}
		return found
	}
	behind := []string{"EarlierQueuedOverlap pattern"}
	want := map[string][]string{"a": behind, "b": behind, "web-1": behind}
	waiting := map[string]string{
		"pattern": "ScopeUnresolvable", "a": "EarlierQueuedOverlap pattern a", "b": "EarlierQueuedOverlap pattern b", "web-1": "EarlierQueuedOverlap pattern web-1",
	}
	dispatch(t, d, 0)
	if diff := cmp.Diff(want, marks()); diff != "" {
		t.Errorf("events of waiting (-want +got):\n%s", diff)
	}
	checkWaits(t, d, "looked at", waiting)
	gates := 0
	s := openStore(t, d.Direct, 1)
	s.ObserveGates(func(time.Duration) { gates++ })
	for _, wanted := range []int{0, 1} {
		if _, err := s.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", Want: wanted, LeaseTTL: time.Minute}); err != nil || gates > 0 {
			t.Errorf("the gate was taken %d times to look at those that were looked at, %v", gates, err)
		}
	}

	if err := d.SyncNamespaces(ctx, berth.DefaultCluster, []berth.Namespace{present("web-0"), present("web-1"), present("a"), present("b")}); err != nil {
		t.Fatal(err)
	}
	dispatch(t, d, 0)
	want["pattern"] = []string{"RunningOverlap runs"}
	for _, name := range []string{"a", "b"} {
		want[name] = []string{"EarlierQueuedOverlap pattern", "Dispatch "}
	}
	if diff := cmp.Diff(want, marks()); diff != "" {
		t.Errorf("events of waiting, resolved (-want +got):\n%s", diff)
	}
	waiting = map[string]string{"pattern": "RunningOverlap runs web-0", "a": "NoFreeSlot", "b": "NoFreeSlot", "web-1": "EarlierQueuedOverlap pattern web-1"}
	checkWaits(t, d, "resolved", waiting)
	finish(t, d, run)
	if diff := cmp.Diff([]string{"pattern"}, names(dispatch(t, d, 1))); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
}

// Who only refers to a backup, as the mirror does when it notes what it wrote,
// does not keep it out of the dequeue.
func TestReferenceToACandidateDoesNotHideIt(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a")
	b := enqueue(t, d, request("b", "a"))
	h := hold(t, d.URL)
	h.exec("INSERT INTO mirrors (seq, cluster_id) SELECT seq, cluster_id FROM backups WHERE id = $1", b.ID)
	if diff := cmp.Diff([]string{"b"}, names(dispatch(t, d, 1))); diff != "" {
		t.Errorf("%s: admitted (-want +got):\n%s", invariant4, diff)
	}
	h.exec("commit")
	checkNoRetries(t, d.Store)
}
