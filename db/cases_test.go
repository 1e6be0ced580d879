package db_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

// Public reports of what goes wrong when many backups run at once, each with the
// number of its thread, put to the queue.

func enqueueMany(tb testing.TB, d *dbtest.Database, requests ...berth.Request) []uuid.UUID {
	tb.Helper()
	ids, err := d.EnqueueMany(context.Background(), berth.DefaultCluster, requests)
	if err != nil {
		tb.Fatal(err)
	}
	return ids
}

func running(tb testing.TB, d *dbtest.Database) []string {
	tb.Helper()
	q, err := d.Queue(context.Background(), berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1})
	if err != nil {
		tb.Fatal(err)
	}
	found := []string{}
	for _, b := range q.Running {
		found = append(found, b.Name)
	}
	return found
}

// velero#10519: a burst of backups that failed within moments of their start left
// a counter of running ones behind, and the queue stood for nine hours. Here
// running is counted, never kept.
func TestBurstOfInstantFailures(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)
	var all []berth.Request
	for i := range 300 {
		all = append(all, request(nth("daily", i), nth("ns", i)))
	}
	enqueueMany(t, d, all...)
	for i := range 20 {
		runs := dispatch(t, d, 1)
		if diff := cmp.Diff([]string{nth("daily", i)}, names(runs)); diff != "" {
			t.Fatalf("claim %d (-want +got):\n%s", i, diff)
		}
		if err := d.Finish(ctx, runs[0], berth.Outcome{Phase: berth.PhaseFailedValidation, Reason: "StorageUnavailable"}); err != nil {
			t.Fatal(err)
		}
		if left := running(t, d); len(left) > 0 {
			t.Fatalf("after failure %d there run %v", i, left)
		}
	}
	if diff := cmp.Diff([]string{"daily-20"}, names(dispatch(t, d, 1))); diff != "" {
		t.Errorf("the next one (-want +got):\n%s", diff)
	}
}

// velero#9493: a backup hung in the queue behind one that had failed early.
// Whatever phase a run ends from and however, its place and its namespaces are
// free.
func TestEveryEndReleasesThePlace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	outcome := func(phase berth.Phase) func(*dbtest.Database, berth.Run) error {
		return func(d *dbtest.Database, run berth.Run) error {
			return d.Finish(ctx, run, berth.Outcome{Phase: phase, Reason: string(phase)})
		}
	}
	ready := func(*dbtest.Database, berth.Run) error { return nil }
	started := func(d *dbtest.Database, run berth.Run) error { return d.Start(ctx, run) }
	finalizing := func(errors int) func(*dbtest.Database, berth.Run) error {
		return func(d *dbtest.Database, run berth.Run) error {
			if err := d.Start(ctx, run); err != nil {
				return err
			}
			return d.Finalize(ctx, run, berth.Outcome{Errors: errors})
		}
	}
	for name, way := range map[string]struct {
		there, end func(*dbtest.Database, berth.Run) error
	}{
		"refused by the cluster":     {ready, outcome(berth.PhaseFailedValidation)},
		"failed before it began":     {ready, outcome(berth.PhaseFailed)},
		"failed":                     {started, outcome(berth.PhaseFailed)},
		"canceled":                   {started, outcome(berth.PhaseCanceled)},
		"failed while it closed":     {finalizing(0), outcome(berth.PhaseFailed)},
		"completed":                  {finalizing(0), outcome(berth.PhaseCompleted)},
		"partially failed":           {finalizing(1), outcome(berth.PhasePartiallyFailed)},
		"canceled while it closed":   {finalizing(1), outcome(berth.PhaseCanceled)},
		"its last worker was lost":   {started, loseForGood},
		"canceled, its worker lost":  {started, cancelAndLose},
		"canceled, its worker leave": {started, cancelAndRelease},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newQueue(t, 1, "a")
			enqueue(t, d, request("first", "a"))
			enqueue(t, d, request("second", "a"))
			run := dispatch(t, d, 1)[0]
			if err := way.there(d, run); err != nil {
				t.Fatal(err)
			}
			if err := way.end(d, run); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"second"}, names(dispatch(t, d, 1))); diff != "" {
				t.Errorf("whoever waited (-want +got):\n%s", diff)
			}
		})
	}
}

func loseForGood(d *dbtest.Database, run berth.Run) error { return lose(d, run, "max_attempts = 1") }

func cancelAndLose(d *dbtest.Database, run berth.Run) error {
	if _, err := d.Cancel(context.Background(), run.ID, ""); err != nil {
		return err
	}
	return lose(d, run, "max_attempts = max_attempts")
}

func cancelAndRelease(d *dbtest.Database, run berth.Run) error {
	ctx := context.Background()
	if _, err := d.Cancel(ctx, run.ID, ""); err != nil {
		return err
	}
	return d.Release(ctx, run, "the worker goes away")
}

// lose lets a run's lease run out, and reaps it.
func lose(d *dbtest.Database, run berth.Run, also string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, d.Direct)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, sql := range []string{
		"UPDATE backups SET " + also + " WHERE seq = $1",
		"UPDATE leases SET expires_at = clock_timestamp() - interval '1 hour' WHERE seq = $1",
	} {
		if _, err := conn.Exec(ctx, sql, run.Seq); err != nil {
			return err
		}
	}
	_, err = d.Reap(ctx, 0)
	return err
}

// velero#487: two server pods could both take the same new backup. Eight
// processes take a thousand: each backup is admitted once.
func TestEightProcessesTakeEachBackupOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const backups, processes = 1000, 8
	d := newQueue(t, 40)
	var all []berth.Request
	for i := range backups {
		all = append(all, request(nth("b", i), nth("ns", i)))
	}
	enqueueMany(t, d, all...)
	var mu sync.Mutex
	taken := map[string][]string{}
	var crew sync.WaitGroup
	for p := range processes {
		s := openStore(t, d.URL, 2)
		crew.Go(func() {
			for {
				done, err := s.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: nth("w", p), Want: 5, LeaseTTL: time.Hour})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, run := range done.Runs {
					taken[run.Name] = append(taken[run.Name], nth("w", p))
				}
				total := len(taken)
				mu.Unlock()
				for _, run := range done.Runs {
					if err := s.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"}); err != nil {
						t.Error(err)
					}
				}
				if total >= backups {
					return
				}
			}
		})
	}
	crew.Wait()
	for name, by := range taken {
		if len(by) != 1 {
			t.Errorf("%s was taken by %v", name, by)
		}
	}
	twice := collect[struct{ Seq, Attempt int64 }](t, connect(t, d.URL), `
		SELECT seq, attempt FROM events WHERE to_phase = 'ReadyToStart' GROUP BY seq, attempt HAVING count(*) > 1`)
	if len(twice) > 0 {
		t.Errorf("admitted twice: %v", twice)
	}
}

// velero#2601: a small backup waited behind a long one of another namespace.
func TestAShortOnePassesALongOne(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 2, "long", "short")
	enqueue(t, d, request("long", "long"))
	enqueue(t, d, request("short", "short"))
	runs := dispatch(t, d, 5)
	if diff := cmp.Diff([]string{"long", "short"}, names(runs)); diff != "" {
		t.Fatalf("admitted (-want +got):\n%s", diff)
	}
	finish(t, d, runs[1])
	if diff := cmp.Diff([]string{"long"}, running(t, d)); diff != "" {
		t.Errorf("still running (-want +got):\n%s", diff)
	}
}

// velero#8899: a backup of the whole cluster must not starve behind a stream of
// small ones: it starts as soon as those that ran before it have ended.
func TestAStreamDoesNotStarveAWideOne(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 3, "a", "b", "c")
	enqueue(t, d, request("a-0", "a"))
	enqueue(t, d, request("b-0", "b"))
	before := dispatch(t, d, 3)
	enqueue(t, d, request("all"))
	for i := range 20 {
		enqueue(t, d, request(nth("stream", i), []string{"a", "b", "c"}[i%3]))
		if runs := dispatch(t, d, 3); len(runs) > 0 {
			t.Fatalf("%v overtook the wide one", names(runs))
		}
	}
	for _, run := range before {
		finish(t, d, run)
	}
	if diff := cmp.Diff([]string{"all"}, names(dispatch(t, d, 3))); diff != "" {
		t.Errorf("next (-want +got):\n%s", diff)
	}
}

// velero PR 2378: two backups must never quiesce one application at once, also
// where the first one fails in between.
func TestOneNamespaceOneBackup(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 2, "app")
	for i := range 5 {
		enqueue(t, d, request(nth("b", i), "app"))
	}
	for i := range 5 {
		runs := dispatch(t, d, 2)
		if diff := cmp.Diff([]string{nth("b", i)}, names(runs)); diff != "" {
			t.Fatalf("at once (-want +got):\n%s", diff)
		}
		if err := d.Start(ctx, runs[0]); err != nil {
			t.Fatal(err)
		}
		if more := dispatch(t, d, 2); len(more) > 0 {
			t.Fatalf("%v runs beside %s", names(more), runs[0].Name)
		}
		if err := d.Finish(ctx, runs[0], berth.Outcome{Phase: berth.PhaseFailed, Reason: "HookFailed"}); err != nil {
			t.Fatal(err)
		}
	}
}

// velero#6310: one by hand jumps ahead of fifty scheduled ones; and a stream of
// those cannot keep a scheduled one waiting for longer than their priority.
func TestUrgentOnesAgeOut(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1)
	var scheduled []berth.Request
	for i := range 50 {
		scheduled = append(scheduled, request(nth("scheduled", i), nth("ns", i)))
	}
	enqueueMany(t, d, scheduled...)
	urgent := func(name string) berth.Request {
		r := request(name, name)
		r.Priority = 10
		return r
	}
	enqueue(t, d, urgent("by-hand"))
	run := dispatch(t, d, 1)[0]
	if run.Name != "by-hand" {
		t.Fatalf("admitted %s", run.Name)
	}
	finish(t, d, run)
	// Ten minutes and a second later, one that comes now is later than the oldest.
	exec(t, d, `UPDATE backups SET enqueued_at = enqueued_at - interval '601 s', order_key = order_key - interval '601 s' WHERE phase = 'Queued'`)
	exec(t, d, `UPDATE claims SET order_key = order_key - interval '601 s'`)
	enqueue(t, d, urgent("too-late"))
	if runs := dispatch(t, d, 1); runs[0].Name != "scheduled-0" {
		t.Errorf("admitted %s", runs[0].Name)
	}
}

// velero#5847: backups sat for hours and nobody knew why. Each change of the
// witness and of the cluster has an event, from the enqueue to the admission;
// that the witness began to run is the witness's own event.
func TestEveryWaitIsOnRecord(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a", "b")
	enqueue(t, d, request("first", "a"))
	run := dispatch(t, d, 1)[0]
	enqueue(t, d, request("second", "b"))
	b := enqueue(t, d, request("waits", "a", "b"))
	dispatch(t, d, 0)
	mustSettings(t)(d.Pause(ctx, berth.DefaultCluster, berth.PauseRequest{Reason: "maintenance"}))
	finish(t, d, run)
	mustSettings(t)(d.Resume(ctx, berth.DefaultCluster, ""))
	finish(t, d, dispatch(t, d, 1)[0])
	if diff := cmp.Diff([]string{"waits"}, names(dispatch(t, d, 1))); diff != "" {
		t.Fatalf("admitted (-want +got):\n%s", diff)
	}
	type record struct{ What, Reason string }
	found := collect[record](t, connect(t, d.URL), `
		SELECT coalesce(from_phase || ' ' || to_phase, 'cluster') AS what, e.reason FROM events e LEFT JOIN backups b USING (seq)
		 WHERE b.id = $1 OR e.seq IS NULL AND e.reason LIKE 'Queue%' ORDER BY e.id`, b.ID)
	want := []record{
		{" Queued", "Enqueued"}, {"Queued Queued", "EarlierQueuedOverlap"}, {"cluster", "QueuePaused"}, {"cluster", "QueueResumed"},
		{"Queued ReadyToStart", "Admitted"},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("on record (-want +got):\n%s", diff)
	}
}

// k8up#370: when what had blocked a namespace for a week went away, all that had
// piled up started at once.
func TestABacklogDoesNotBurst(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 5, "app")
	enqueue(t, d, request("stuck", "app"))
	stuck := dispatch(t, d, 5)
	var backlog []berth.Request
	for i := range 336 { // half-hourly for a week
		backlog = append(backlog, request(nth("tick", i), "app"))
	}
	enqueueMany(t, d, backlog...)
	dispatch(t, d, 5)
	finish(t, d, stuck[0])
	for i := range 10 {
		runs := dispatch(t, d, 5)
		if diff := cmp.Diff([]string{nth("tick", i)}, names(runs)); diff != "" {
			t.Fatalf("at once (-want +got):\n%s", diff)
		}
		finish(t, d, runs[0])
	}
}

// pgqueuer PR 474: a dead running job counted against the limit, so that its own
// rescue was refused for ever.
func TestRescueNeedsNoFreeSlot(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a")
	enqueue(t, d, request("dead", "a"))
	run := dispatch(t, d, 1)[0]
	enqueue(t, d, request("next", "a"))
	expire(t, d, run)
	reap(t, d, 1)
	if diff := cmp.Diff([]string{"dead"}, names(dispatch(t, d, 1))); diff != "" {
		t.Errorf("rescued (-want +got):\n%s", diff)
	}
}

// The commit of a NOTIFY takes one lock for the whole server: a transaction
// sends one, however many backups it is about.
func TestOneNotificationATransaction(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	conn := connect(t, d.Direct)
	if _, err := conn.Exec(ctx, "LISTEN berth_queue"); err != nil {
		t.Fatal(err)
	}
	var many []berth.Request
	for i := range 100 {
		many = append(many, request(nth("b", i), "a"))
	}
	ids := enqueueMany(t, d, many...)
	if _, err := d.Cancel(ctx, ids[99], ""); err != nil {
		t.Fatal(err)
	}
	// The end of the story, so that nothing is waited for in vain.
	exec(t, d, "SELECT pg_notify('berth_queue', 'end')")
	var heard []string
	for len(heard) == 0 || heard[len(heard)-1] != "end" {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, n.Payload)
	}
	if diff := cmp.Diff([]string{"1", "1", "end"}, heard); diff != "" {
		t.Errorf("an enqueue of a hundred and a cancel told (-want +got):\n%s", diff)
	}
}

// divviup/janus#358: SKIP LOCKED under SERIALIZABLE makes claimers conflict with
// one another. Behind the gate 24 of them take 500 backups without one retry to
// two claims, and the limit holds.
func TestManyClaimersHardlyRetry(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const backups, claimers, limit = 500, 24, 5
	d := newQueue(t, limit)
	var all []berth.Request
	for i := range backups {
		all = append(all, request(nth("b", i), nth("ns", i%40)))
	}
	enqueueMany(t, d, all...)
	s := openStore(t, d.URL, claimers)
	var mu sync.Mutex
	claims := 0
	freed, over := make(chan struct{}, claimers), make(chan struct{})
	var crew sync.WaitGroup
	for range claimers {
		crew.Go(func() {
			for {
				done, err := s.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", Want: 1, LeaseTTL: time.Hour})
				if err != nil {
					t.Error(err)
					return
				}
				if len(done.Runs) == 0 {
					select {
					case <-freed:
						continue
					case <-over:
						return
					}
				}
				if err := s.Finish(ctx, done.Runs[0], berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"}); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if claims++; claims == backups {
					close(over)
				}
				mu.Unlock()
				for range 2 {
					select {
					case freed <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	crew.Wait()
	retries := 0
	for _, n := range s.Retries() {
		retries += n
	}
	t.Logf("%d claims by %d claimers, %d retries", claims, claimers, retries)
	if retries > claims/2 || len(s.ConstraintHits()) > 0 {
		t.Errorf("%d retries, constraints hit %v", retries, s.ConstraintHits())
	}
	r := readHistory(t, connect(t, d.URL), berth.DefaultCluster)
	r.changes = [][]berth.Namespace{{}}
	for _, violation := range r.check().violations {
		t.Error(violation)
	}
}

// Everybody who waits for one that goes away is told of the next thing in its
// way, however it went: whoever waits for what has gone is an orphan.
func TestNobodyWaitsForWhatIsGone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	var ids []uuid.UUID
	for i := range 12 {
		ids = append(ids, enqueue(t, d, request(nth("b", i), "a")).ID)
	}
	dispatch(t, d, 0)
	for _, i := range []int{3, 7, 5, 0} {
		if _, err := d.Cancel(ctx, ids[i], ""); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Hour)
	if _, err := d.Edit(ctx, ids[1], berth.Edit{NotBefore: &later}); err != nil {
		t.Fatal(err)
	}
	dispatch(t, d, 0)
	want := map[string]string{"b-1": "NotBefore", "b-2": "Dispatch"}
	for i, before := range map[int]int{4: 2, 6: 4, 8: 6, 9: 8, 10: 9, 11: 10} {
		want[nth("b", i)] = fmt.Sprintf("EarlierQueuedOverlap b-%d a", before)
	}
	checkWaits(t, d, "some have gone", want)
}

// A backup of everything that thousands wait for: the dequeue after its end
// releases some, admits, and leaves the rest to the next ones. A free place does
// not wait until all of them are looked at.
func TestAFreePlaceDoesNotWaitForAllWatchers(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1)
	enqueue(t, d, request("all"))
	all := dispatch(t, d, 1)[0]
	var behind []berth.Request
	for i := range 1500 {
		behind = append(behind, request(nth("b", i), nth("ns", i)))
	}
	enqueueMany(t, d, behind...)
	dispatch(t, d, 0)
	finish(t, d, all)
	if diff := cmp.Diff([]string{"b-0"}, names(dispatch(t, d, 1))); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
	type left struct{ Waiting int }
	count := func() int {
		return collect[left](t, connect(t, d.Direct), "SELECT count(*) AS waiting FROM backups WHERE blocked_by IS NOT NULL")[0].Waiting
	}
	if n := count(); n == 0 {
		t.Error("the dequeue released everybody before it admitted one")
	}
	for range 20 {
		dispatch(t, d, 0)
	}
	if n := count(); n > 0 {
		t.Errorf("%d still wait for what has ended", n)
	}
}

// Backups that are not due cost those that read the queue nothing, however many.
func TestManyThatAreNotDue(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	ran(t, d, "past", 1, 60, "a")
	later := time.Now().Add(time.Hour)
	var all []berth.Request
	for i := range 3000 {
		r := request(nth("later", i), "a")
		r.NotBefore = &later
		all = append(all, r)
	}
	enqueueMany(t, d, all...)
	enqueue(t, d, request("runs", "a"))
	dispatch(t, d, 1)
	b := enqueue(t, d, request("waits", "a"))
	if b.Queue.ETA == nil || b.Queue.ETA.StartP50 == nil {
		t.Fatalf("its start: %+v", b.Queue.ETA)
	}
	// The one that runs, the one that waits, and the first of the others.
	if n, err := d.Foreseen(ctx, berth.DefaultCluster); err != nil || n != 2+500 {
		t.Errorf("a prediction counts with %d backups, %v", n, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := d.Queue(ctx, berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 10}); err != nil {
		t.Error(err)
	}
	if _, err := d.Explain(ctx, b.ID); err != nil {
		t.Error(err)
	}
}

// An edit that changes nothing leaves no trace.
func TestEditThatChangesNothing(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a")
	b := enqueue(t, d, request("b", "a"))
	before := rows(t, d)
	edited, err := d.Edit(context.Background(), b.ID, berth.Edit{Priority: new(0), NotBefore: &time.Time{}})
	if err != nil || edited.Version != b.Version {
		t.Errorf("edited: %+v, %v", edited, err)
	}
	if diff := cmp.Diff(before, rows(t, d)); diff != "" {
		t.Errorf("it changed rows (-before +after):\n%s", diff)
	}
}
