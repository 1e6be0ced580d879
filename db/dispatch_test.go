package db_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

// queue is a database with a cluster that has a location, a worker and a
// complete inventory of the namespaces named.
func newQueue(tb testing.TB, limit int, namespaces ...string) *dbtest.Database {
	tb.Helper()
	d := dbtest.New(tb)
	ctx := context.Background()
	if err := d.SetStorageLocation(ctx, berth.StorageLocation{Cluster: berth.DefaultCluster, Name: berth.DefaultStorageLocation, URL: "file:///data"}); err != nil {
		tb.Fatal(err)
	}
	if err := d.SetConcurrentBackups(ctx, berth.DefaultCluster, limit); err != nil {
		tb.Fatal(err)
	}
	if _, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour}); err != nil {
		tb.Fatal(err)
	}
	inventory := make([]berth.Namespace, len(namespaces))
	for i, name := range namespaces {
		inventory[i] = berth.Namespace{Name: name, Exists: true}
	}
	if err := d.SyncNamespaces(ctx, berth.DefaultCluster, inventory); err != nil {
		tb.Fatal(err)
	}
	return d
}

func request(name string, includes ...string) berth.Request {
	return berth.Request{Name: name, Spec: berth.Spec{IncludedNamespaces: includes}}
}

func enqueue(tb testing.TB, d *dbtest.Database, r berth.Request) berth.Backup {
	tb.Helper()
	b, err := d.Enqueue(context.Background(), r)
	if err != nil {
		tb.Fatalf("enqueue %s: %v", r.Name, err)
	}
	return b
}

func dispatch(tb testing.TB, d *dbtest.Database, want int) []berth.Run {
	tb.Helper()
	done, err := d.Dispatch(context.Background(), berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", Want: want, LeaseTTL: time.Minute})
	if err != nil {
		tb.Fatalf("dispatch: %v", err)
	}
	return done.Runs
}

func finish(tb testing.TB, d *dbtest.Database, run berth.Run) {
	tb.Helper()
	ctx := context.Background()
	for _, err := range []error{
		d.Start(ctx, run),
		d.Finalize(ctx, run, berth.Outcome{}),
		d.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseCompleted, Reason: "Completed"}),
	} {
		if err != nil {
			tb.Fatal(err)
		}
	}
}

func names(runs []berth.Run) []string {
	var names []string
	for _, run := range runs {
		names = append(names, run.Name)
	}
	return names
}

type queueReader interface {
	Queue(ctx context.Context, options berth.QueueOptions) (berth.Queue, error)
}

// waits reads what each waiting backup waits for: reason and the blocker's name.
func waits(tb testing.TB, d queueReader) map[string]string {
	tb.Helper()
	q, err := d.Queue(context.Background(), berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1000})
	if err != nil {
		tb.Fatal(err)
	}
	found := map[string]string{}
	for i, b := range q.Waiting {
		if b.Phase == berth.PhaseQueued && b.Queue.Position != i+1 {
			tb.Errorf("%s has position %d, want %d", b.Name, b.Queue.Position, i+1)
		}
		blocker := b.Queue.BlockedBy[0]
		text := string(blocker.Reason)
		if blocker.Backup != nil {
			text += " " + blocker.Backup.Name
			for _, n := range blocker.Namespaces {
				text += " " + n
			}
		}
		found[b.Name] = text
	}
	return found
}

// The example of Velero's design document with a limit of 2: 2 waits for the
// running 1, 3 and 4 for the queued 2, and 5 passes them all.
func TestDesignExample(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 2, "ns1", "ns2", "ns3", "ns4", "ns5", "ns6", "ns8", "ns9")
	for _, r := range []berth.Request{
		request("backup1", "ns1", "ns2"), request("backup2", "ns2", "ns3", "ns5"), request("backup3", "ns4", "ns3"),
		request("backup4", "ns5", "ns6"), request("backup5", "ns8", "ns9"),
	} {
		enqueue(t, d, r)
	}
	first := dispatch(t, d, 10)
	if diff := cmp.Diff([]string{"backup1", "backup5"}, names(first)); diff != "" {
		t.Fatalf("the first dequeue (-want +got):\n%s", diff)
	}
	want := map[string]string{
		"backup2": "RunningOverlap backup1 ns2",
		"backup3": "EarlierQueuedOverlap backup2 ns3",
		"backup4": "EarlierQueuedOverlap backup2 ns5",
	}
	if diff := cmp.Diff(want, waits(t, d)); diff != "" {
		t.Errorf("what they wait for (-want +got):\n%s", diff)
	}
	finish(t, d, first[1])
	if runs := dispatch(t, d, 10); len(runs) != 0 {
		t.Fatalf("backup5 ended, nothing may start, but %v did", names(runs))
	}
	finish(t, d, first[0])
	second := dispatch(t, d, 10)
	if diff := cmp.Diff([]string{"backup2"}, names(second)); diff != "" {
		t.Fatalf("after backup1 (-want +got):\n%s", diff)
	}
	finish(t, d, second[0])
	third := dispatch(t, d, 10)
	if diff := cmp.Diff([]string{"backup3", "backup4"}, names(third)); diff != "" {
		t.Fatalf("after backup2 (-want +got):\n%s", diff)
	}
	for _, run := range third {
		finish(t, d, run)
	}
	if hits := d.ConstraintHits(); len(hits) > 0 {
		t.Errorf("constraints were hit: %v", hits)
	}
}

// Of several that may start, the earliest does, also where more stand before it
// than one pass looks at, all of them blocked.
func TestAdmissionFollowsTheOrder(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 2)
	enqueue(t, d, request("runs", "a"))
	dispatch(t, d, 1)
	for i := range 257 {
		enqueue(t, d, request(fmt.Sprintf("blocked-%d", i), "a"))
	}
	enqueue(t, d, request("earlier", "x"))
	enqueue(t, d, request("later", "y"))
	dispatch(t, d, 0)
	// All but the last have changed since somebody looked.
	_, err := connect(t, d.URL).Exec(context.Background(),
		"UPDATE backups SET evaluated = false, blocked_by = NULL WHERE phase = 'Queued' AND name <> 'later'")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"earlier"}, names(dispatch(t, d, 1))); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
}

// One dequeue admits all that may start, also where the first of those that
// nothing was known to be in the way of have got somebody ahead since, whatever
// becomes of that one.
func TestOneDequeueAdmitsAll(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	behind := []string{"b0", "b1", "b2", "b3"}
	for name, test := range map[string]struct {
		arrives berth.Spec
		spoil   string
		want    []string
	}{
		"it starts too":               {spec(behind, nil), "", []string{"first", "arrives", "none-0"}},
		"it cannot be resolved":       {spec([]string{"web-*"}, nil), "UPDATE clusters SET inventory_synced_at = NULL", []string{"first", "none-0", "none-1"}},
		"its location is away":        {berth.Spec{IncludedNamespaces: behind, StorageLocation: "away"}, "", []string{"first", "none-0", "none-1"}},
		"its cluster does not answer": {spec(nil, []string{"a"}), "UPDATE clusters SET seen_at = clock_timestamp() - interval '61 seconds'", []string{"first", "none-0", "none-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newQueue(t, 3)
			if err := d.SetStorageLocation(ctx, berth.StorageLocation{Cluster: berth.DefaultCluster, Name: "away", URL: "file:///away"}); err != nil {
				t.Fatal(err)
			}
			if err := d.SetLocationAvailable(ctx, berth.DefaultCluster, "away", false, "connection refused"); err != nil {
				t.Fatal(err)
			}
			if test.spoil != "" {
				exec(t, d, test.spoil)
			}
			for i := range 3 {
				enqueue(t, d, request(fmt.Sprintf("runs-%d", i), fmt.Sprintf("runs-%d", i)))
			}
			runs := dispatch(t, d, 3)
			enqueue(t, d, berth.Request{Name: "first", Priority: 2, Spec: spec([]string{"first"}, nil)})
			for _, name := range behind {
				enqueue(t, d, request(name, name))
			}
			enqueue(t, d, request("none-0", ""))
			enqueue(t, d, request("none-1", ""))
			dispatch(t, d, 0)
			enqueue(t, d, berth.Request{Name: "arrives", Priority: 1, Spec: test.arrives})
			for _, run := range runs {
				finish(t, d, run)
			}
			if diff := cmp.Diff(test.want, names(dispatch(t, d, 3))); diff != "" {
				t.Errorf("admitted (-want +got):\n%s", diff)
			}
		})
	}
}

// A dequeue tells some of those that it passed over by name, and how many more
// there are: what wide scopes share takes long to find.
func TestPassedOverAreToldInPart(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a", "b")
	requests := []berth.Request{request("first", "a")}
	for i := range 150 {
		requests = append(requests, request(fmt.Sprintf("all-%d", i)))
	}
	enqueueMany(t, d, requests...)
	done, err := d.Dispatch(context.Background(), berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", Want: 0, LeaseTTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if len(done.PassedOver) != 10 || done.MorePassedOver != 140 {
		t.Errorf("told %d and %d more, want 10 and 140", len(done.PassedOver), done.MorePassedOver)
	}
	want := berth.PassedOver{Name: "all-0", Witness: "first", Shared: []string{"a"}}
	if diff := cmp.Diff(want, done.PassedOver[0]); diff != "" {
		t.Errorf("the first (-want +got):\n%s", diff)
	}
}

// One that comes ahead of everybody and cannot be resolved is in the way of all
// that nothing was in the way of: a dequeue finds that out of many at a time, each
// pass takes the gate.
func TestManyKnownBehindOneThatCannotBeResolved(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)
	exec(t, d, "UPDATE clusters SET inventory_synced_at = NULL")
	requests := make([]berth.Request, 600)
	for i := range requests {
		requests[i] = request(fmt.Sprintf("b%d", i), fmt.Sprintf("n%d", i))
	}
	enqueueMany(t, d, requests...)
	run := dispatch(t, d, 1)[0]
	dispatch(t, d, 0)
	enqueue(t, d, berth.Request{Name: "pattern", Priority: 600, Spec: spec([]string{"web-*"}, nil)})
	finish(t, d, run)
	gates := 0
	s := openStore(t, d.Direct, 1)
	s.ObserveGates(func(time.Duration) { gates++ })
	done, err := s.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", Want: 1, LeaseTTL: time.Minute})
	if err != nil || len(done.Runs) > 0 {
		t.Errorf("admitted %v, %v", done.Runs, err)
	}
	if gates > 10 {
		t.Errorf("the gate was taken %d times for %d that wait for one", gates, len(requests))
	}
}
