package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
)

// A backup that is not due has no place and no claim; from its time on it counts
// as submitted then.
func TestNotBefore(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a", "b")
	later := time.Now().Add(time.Hour)
	b, err := d.Enqueue(ctx, berth.Request{Name: "later", NotBefore: &later, Spec: spec([]string{"a"}, nil)})
	if err != nil {
		t.Fatal(err)
	}
	if b.Phase != berth.PhaseNew || b.EnqueuedAt != nil || b.Queue.Position != 0 || len(b.Namespaces.Names) > 0 {
		t.Errorf("before its time: %+v", b)
	}
	enqueue(t, d, request("first", "a"))
	checkWaits(t, d, "before its time", map[string]string{"first": "Dispatch", "later": "NotBefore"})
	run := dispatch(t, d, 1)[0]
	if run.Name != "first" {
		t.Errorf("admitted %s", run.Name)
	}
	enqueue(t, d, request("second", "a"))
	// Its time came before the second was asked for.
	exec(t, d, `UPDATE backups l SET not_before = s.enqueued_at - interval '1 ms', order_key = s.enqueued_at - interval '1 ms',
	                   enqueued_at = s.enqueued_at - interval '1 hour'
	              FROM backups s WHERE l.name = 'later' AND s.name = 'second'`)
	dispatch(t, d, 0)
	checkWaits(t, d, "in its time", map[string]string{"later": "RunningOverlap first a", "second": "EarlierQueuedOverlap later a"})
	finish(t, d, run)
	if diff := cmp.Diff([]string{"later"}, names(dispatch(t, d, 1))); diff != "" {
		t.Errorf("next (-want +got):\n%s", diff)
	}
}

// Not first admitted by its start deadline, a backup fails and never runs, also
// in a paused queue and where there is no worker; once admitted, it has met it.
func TestStartDeadline(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	passed := func(t *testing.T, d interface {
		Dispatch(context.Context, berth.DispatchRequest) (berth.Dispatched, error)
	}, want int) []berth.Run {
		t.Helper()
		done, err := d.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", Want: want, LeaseTTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return done.Runs
	}
	for _, kept := range []string{"running", "paused", "no worker", "not due"} {
		t.Run(kept, func(t *testing.T) {
			t.Parallel()
			d := newQueue(t, 1, "a")
			deadline := time.Now().Add(time.Hour)
			r := berth.Request{Name: "late", StartDeadline: &deadline, Spec: spec([]string{"a"}, nil)}
			switch kept {
			case "running":
				enqueue(t, d, request("runs", "a"))
				dispatch(t, d, 1)
			case "paused":
				mustSettings(t)(d.Pause(ctx, berth.DefaultCluster, berth.PauseRequest{}))
			case "no worker":
				if err := d.Retire(ctx, "w"); err != nil {
					t.Fatal(err)
				}
			case "not due":
				notBefore := deadline.Add(-time.Minute)
				r.NotBefore = &notBefore
			}
			late, err := d.Enqueue(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			enqueue(t, d, request("behind", "a"))
			passed(t, d, 0)
			exec(t, d, "UPDATE backups SET start_deadline = clock_timestamp() - interval '1 s' WHERE name = 'late'")
			for _, run := range passed(t, d, 1) {
				if run.Name == "late" {
					t.Error("it was admitted after its start deadline")
				}
			}
			b, err := d.Backup(ctx, late.ID)
			if err != nil {
				t.Fatal(err)
			}
			if b.Phase != berth.PhaseFailed || b.Reason != "StartDeadlineExceeded" || b.ReadyAt != nil || b.CompletedAt == nil || b.FailureReason == "" {
				t.Errorf("it is %+v", b)
			}
			if wait := waits(t, d)["behind"]; wait == "EarlierQueuedOverlap late a" {
				t.Errorf("behind waits for one that has ended: %s", wait)
			}
		})
	}
	t.Run("met", func(t *testing.T) {
		t.Parallel()
		d := newQueue(t, 1, "a")
		deadline := time.Now().Add(time.Hour)
		if _, err := d.Enqueue(ctx, berth.Request{Name: "met", StartDeadline: &deadline, Spec: spec([]string{"a"}, nil)}); err != nil {
			t.Fatal(err)
		}
		run := dispatch(t, d, 1)[0]
		exec(t, d, "UPDATE backups SET start_deadline = clock_timestamp() - interval '1 s'")
		expire(t, d, run)
		reap(t, d, 1)
		if diff := cmp.Diff([]string{"met"}, names(dispatch(t, d, 1))); diff != "" {
			t.Errorf("after a lost lease (-want +got):\n%s", diff)
		}
	})
}

// A backup of whatever scope that ends before it was due can be read, and so can
// the list that it is in.
func TestEndedBeforeItWasDue(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a", "b")
	for name, s := range map[string]berth.Spec{
		"everything": spec(nil, nil), "none": spec([]string{""}, nil), "some": spec([]string{"a"}, nil), "pattern": spec([]string{"?"}, nil),
		"but-literal": spec(nil, []string{"a"}), "but-pattern": spec(nil, []string{"?"}),
	} {
		b, err := d.Enqueue(ctx, berth.Request{Name: name, NotBefore: new(time.Now().Add(time.Hour)), Spec: s})
		if err != nil {
			t.Fatal(err)
		}
		canceled, err := d.Cancel(ctx, b.ID, "")
		if err != nil {
			t.Fatalf("cancel %s: %v", name, err)
		}
		if canceled.Phase != berth.PhaseCanceled || len(canceled.Namespaces.Names)+len(canceled.Namespaces.Except) > 0 {
			t.Errorf("%s is %s and claims %+v", name, canceled.Phase, canceled.Namespaces)
		}
	}
	list, err := d.Backups(ctx, berth.ListOptions{Limit: 200})
	if err != nil || len(list.Items) != 6 {
		t.Errorf("%d in the list: %v", len(list.Items), err)
	}
}

// Who waited for one that passes its start deadline keeps its place: the dequeue
// that ends that one admits it, not who is behind it.
func TestWatcherOfAnExpiredKeepsItsPlace(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a", "b")
	enqueue(t, d, berth.Request{Name: "late", StartDeadline: new(time.Now().Add(time.Hour)), Spec: spec([]string{"a"}, nil)})
	enqueue(t, d, request("next", "a"))
	enqueue(t, d, request("behind", "b"))
	dispatch(t, d, 0)
	checkWaits(t, d, "before", map[string]string{"late": "Dispatch", "next": "EarlierQueuedOverlap late a", "behind": "Dispatch"})
	exec(t, d, "UPDATE backups SET start_deadline = clock_timestamp() - interval '1 s' WHERE name = 'late'")
	if diff := cmp.Diff([]string{"next"}, names(dispatch(t, d, 1))); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
}

// A storage location that is down keeps its own backups waiting, however many
// are in front, and nobody else's; when it is back they start.
func TestUnavailableLocationHidesNobody(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 50, "a")
	if err := d.SetStorageLocation(ctx, berth.StorageLocation{Cluster: berth.DefaultCluster, Name: "down", URL: "file:///down"}); err != nil {
		t.Fatal(err)
	}
	if err := d.SetLocationAvailable(ctx, berth.DefaultCluster, "down", false, "connection refused"); err != nil {
		t.Fatal(err)
	}
	var many []berth.Request
	for i := range 40 {
		r := request(nth("down", i), nth("ns", i))
		r.Spec.StorageLocation = "down"
		many = append(many, r)
	}
	if _, err := d.EnqueueMany(ctx, berth.DefaultCluster, many); err != nil {
		t.Fatal(err)
	}
	enqueue(t, d, request("healthy", "a"))
	enqueue(t, d, request("behind", nth("ns", 7)))
	if diff := cmp.Diff([]string{"healthy"}, names(dispatch(t, d, 50))); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
	found := waits(t, d)
	if found[nth("down", 3)] != "StorageUnavailable" || found["behind"] != "EarlierQueuedOverlap "+nth("down", 7)+" "+nth("ns", 7) {
		t.Errorf("they wait for %q and %q", found[nth("down", 3)], found["behind"])
	}
	if err := d.SetLocationAvailable(ctx, berth.DefaultCluster, "down", true, ""); err != nil {
		t.Fatal(err)
	}
	admitted := 0
	for range 3 {
		admitted += len(dispatch(t, d, 50))
	}
	if admitted != 40 {
		t.Errorf("%d were admitted when it was back, want 40", admitted)
	}
}

// Where the cluster's API was silent, what depends on namespaces that nobody
// named waits, and nothing else.
func TestUnreachableCluster(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 9, "a", "b", "web-1")
	if err := d.Seen(ctx, berth.DefaultCluster); err != nil {
		t.Fatal(err)
	}
	exec(t, d, "UPDATE clusters SET seen_at = clock_timestamp() - interval '2 minutes'")
	enqueue(t, d, request("pattern", "web-*"))
	enqueue(t, d, request("literal", "a"))
	if diff := cmp.Diff([]string{"literal"}, names(dispatch(t, d, 9))); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
	enqueue(t, d, berth.Request{Name: "but", Spec: spec(nil, []string{"b"})})
	dispatch(t, d, 9)
	checkWaits(t, d, "unreachable", map[string]string{"pattern": "ClusterUnreachable", "but": "ClusterUnreachable"})
	if err := d.Seen(ctx, berth.DefaultCluster); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pattern"}, names(dispatch(t, d, 9))); diff != "" {
		t.Errorf("admitted when it answers again (-want +got):\n%s", diff)
	}
}
