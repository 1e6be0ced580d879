package db_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/db/dbtest"
)

// Each test here forces a hazard that a queue on Postgres runs into when its
// locks are taken in another way or in another order.

// holder is a transaction that holds what others wait for.
type holder struct {
	tb   testing.TB
	conn *pgx.Conn
}

func hold(tb testing.TB, url string) *holder {
	tb.Helper()
	h := &holder{tb: tb, conn: connect(tb, url)}
	h.exec("begin")
	return h
}

func (h *holder) exec(sql string, args ...any) {
	h.tb.Helper()
	if _, err := h.conn.Exec(context.Background(), sql, args...); err != nil {
		h.tb.Fatalf("%s: %v", sql, err)
	}
}

func (h *holder) gate() {
	h.tb.Helper()
	h.exec("lock table dispatch_gate_1 in exclusive mode")
}

// awaitBlocked returns when so many connections of the database wait for a lock.
func awaitBlocked(tb testing.TB, url string, want int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn := connect(tb, url)
	for blocked := -1; blocked != want; {
		err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND wait_event_type = 'Lock'").Scan(&blocked)
		if err != nil {
			tb.Fatalf("%d connections wait for a lock, want %d: %v", blocked, want, err)
		}
	}
}

// during starts do and returns how to wait for its error.
func during(do func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return func() error { return <-done }
}

// race runs all at once and returns every error.
func race(all ...func() error) error {
	errs := make([]error, len(all))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, do := range all {
		wg.Go(func() {
			<-start
			errs[i] = do()
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(errs...)
}

func checkNoRetries(tb testing.TB, s *db.Store) {
	tb.Helper()
	if diff := cmp.Diff(map[string]int{}, s.Retries()); diff != "" {
		tb.Errorf("transactions run again, by SQLSTATE (-want +got):\n%s", diff)
	}
}

func appear(d *dbtest.Database, names ...string) error {
	var changed []berth.Namespace
	for _, name := range names {
		changed = append(changed, berth.Namespace{Name: name, Exists: true})
	}
	return d.ChangeNamespaces(context.Background(), berth.DefaultCluster, changed)
}

func checkClaims(tb testing.TB, d *dbtest.Database, b berth.Backup, want ...string) {
	tb.Helper()
	now, err := d.Backup(context.Background(), b.ID)
	if err != nil {
		tb.Fatal(err)
	}
	if diff := cmp.Diff(want, now.Namespaces.Names); diff != "" {
		tb.Errorf("%s claims (-want +got):\n%s", b.Name, diff)
	}
}

// A pattern that is enqueued while a namespace appears claims it, whichever of
// the two comes first.
func TestPatternRacesWithNamespaceThatAppears(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("the enqueue is first", func(t *testing.T) {
		t.Parallel()
		d := newQueue(t, 1, "web-0")
		// The enqueue stops behind its inventory lock, at a name that somebody
		// else is about to name.
		h := hold(t, d.URL)
		h.exec("INSERT INTO namespaces (cluster_id, name) VALUES (1, 'held')")
		var b berth.Backup
		enqueued := during(func() (err error) {
			b, err = d.Enqueue(ctx, request("pattern", "web-*", "held"))
			return err
		})
		awaitBlocked(t, d.URL, 1)
		appeared := during(func() error { return appear(d, "web-1") })
		awaitBlocked(t, d.URL, 2)
		h.exec("rollback")
		if err := errors.Join(enqueued(), appeared()); err != nil {
			t.Fatal(err)
		}
		checkClaims(t, d, b, "held", "web-0", "web-1")
		checkNoRetries(t, d.Store)
	})

	t.Run("the namespace is first", func(t *testing.T) {
		t.Parallel()
		d := newQueue(t, 1, "web-0")
		// The change of the inventory stops behind its lock, at its first row.
		h := hold(t, d.URL)
		h.exec("INSERT INTO namespaces (cluster_id, name) VALUES (1, 'web-1')")
		appeared := during(func() error { return appear(d, "web-1") })
		awaitBlocked(t, d.URL, 1)
		var b berth.Backup
		enqueued := during(func() (err error) {
			b, err = d.Enqueue(ctx, request("pattern", "web-*"))
			return err
		})
		awaitBlocked(t, d.URL, 2)
		h.exec("rollback")
		if err := errors.Join(enqueued(), appeared()); err != nil {
			t.Fatal(err)
		}
		checkClaims(t, d, b, "web-0", "web-1")
		checkNoRetries(t, d.Store)
	})

	t.Run("raced", func(t *testing.T) {
		t.Parallel()
		d := newQueue(t, 1)
		for i := range 60 {
			var b berth.Backup
			first, second := fmt.Sprintf("r%d-a", i), fmt.Sprintf("r%d-b", i)
			err := race(
				func() error { return appear(d, first) },
				func() error { return appear(d, second) },
				func() (err error) {
					b, err = d.Enqueue(ctx, request("", fmt.Sprintf("r%d-*", i)))
					return err
				},
			)
			if err != nil {
				t.Fatal(err)
			}
			checkClaims(t, d, b, first, second)
		}
		checkNoRetries(t, d.Store)
	})
}

// Lowering the limit stops none and admits none above it; the places above it
// go as soon as nobody holds them.
func TestLimitBelowWhatRuns(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 3)
	conn := connect(t, d.URL)
	setLimit := func(limit int) {
		t.Helper()
		if err := d.SetConcurrentBackups(ctx, berth.DefaultCluster, limit); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, wantRunning []string, wantSlots ...int32) {
		t.Helper()
		q, err := d.Queue(ctx, berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		var running []string
		for _, b := range q.Running {
			running = append(running, b.Name)
		}
		if diff := cmp.Diff(wantRunning, running); diff != "" {
			t.Errorf("%s: running (-want +got):\n%s", what, diff)
		}
		rows, _ := conn.Query(ctx, "SELECT slot FROM slots WHERE cluster_id = 1 ORDER BY slot")
		slots, err := pgx.CollectRows(rows, pgx.RowTo[int32])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantSlots, slots); diff != "" {
			t.Errorf("%s: places (-want +got):\n%s", what, diff)
		}
	}
	dispatchNone := func(what string) {
		t.Helper()
		if runs := dispatch(t, d, 10); len(runs) > 0 {
			t.Fatalf("%s: %s: %v was admitted", what, invariant1, names(runs))
		}
	}
	for i := range 8 {
		enqueue(t, d, request(fmt.Sprintf("b%d", i), fmt.Sprintf("ns%d", i)))
	}
	runs := dispatch(t, d, 10)
	check("full", []string{"b0", "b1", "b2"}, 1, 2, 3)

	setLimit(1)
	check("lowered", []string{"b0", "b1", "b2"}, 1, 2, 3)
	dispatchNone("lowered")
	if diff := cmp.Diff("NoFreeSlot", waits(t, d)["b3"]); diff != "" {
		t.Errorf("b3 waits for (-want +got):\n%s", diff)
	}

	// Each of the three ways out of a place above the limit takes it along.
	finish(t, d, runs[1])
	check("one ended", []string{"b0", "b2"}, 1, 3)
	dispatchNone("one ended")
	finish(t, d, runs[0])
	check("two ended", []string{"b2"}, 1, 3)
	dispatchNone("one still runs, above the limit")
	if err := d.Release(ctx, runs[2], "the worker goes away"); err != nil {
		t.Fatal(err)
	}
	check("the last one given back", nil, 1)

	runs = dispatch(t, d, 10)
	check("free again", []string{"b2"}, 1)
	setLimit(2)
	runs = append(runs, dispatch(t, d, 10)...)
	check("raised", []string{"b2", "b3"}, 1, 2)

	setLimit(1)
	expire(t, d, runs[1])
	if _, err := d.Reap(ctx, 0); err != nil {
		t.Fatal(err)
	}
	check("lowered and one lease lost", []string{"b2"}, 1)
	setLimit(4)
	dispatch(t, d, 10)
	check("raised above what it was", []string{"b2", "b3", "b4", "b5"}, 1, 2, 3, 4)
	if hits := d.ConstraintHits(); len(hits) > 0 {
		t.Errorf("constraints were hit: %v", hits)
	}
}

// expire lets a run's lease end in the past.
func expire(tb testing.TB, d *dbtest.Database, runs ...berth.Run) {
	tb.Helper()
	conn := connect(tb, d.URL)
	for _, run := range runs {
		tag, err := conn.Exec(context.Background(),
			"UPDATE leases SET expires_at = clock_timestamp() - interval '1 hour' WHERE seq = $1 AND fence = $2", run.Seq, run.Fence)
		if err != nil || tag.RowsAffected() != 1 {
			tb.Fatalf("expire the lease of %s: %v, %d rows", run.Name, err, tag.RowsAffected())
		}
	}
}

// Every transaction that may take the gate takes it first: while it waits
// there it has locked nothing, no table and no row, that anybody could wait for.
func TestGateIsTakenFirst(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	named := func(d *dbtest.Database, name string) (id uuid.UUID) {
		if err := connect(t, d.URL).QueryRow(ctx, "SELECT id FROM backups WHERE name = $1", name).Scan(&id); err != nil {
			t.Error(err)
		}
		return id
	}
	operations := map[string]func(*dbtest.Database, berth.Run) error{
		"Finish": func(d *dbtest.Database, run berth.Run) error {
			return d.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"})
		},
		"Release": func(d *dbtest.Database, run berth.Run) error { return d.Release(ctx, run, "") },
		"Reap":    func(d *dbtest.Database, run berth.Run) error { _, err := d.Reap(ctx, 0); return err },
		"SetConcurrentBackups": func(d *dbtest.Database, _ berth.Run) error {
			return d.SetConcurrentBackups(ctx, berth.DefaultCluster, 9)
		},
		"ChangeNamespaces": func(d *dbtest.Database, _ berth.Run) error { return appear(d, "new") },
		"SyncNamespaces":   func(d *dbtest.Database, _ berth.Run) error { return d.SyncNamespaces(ctx, berth.DefaultCluster, nil) },
		"Dispatch": func(d *dbtest.Database, _ berth.Run) error {
			_, err := d.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", Want: 1, LeaseTTL: time.Minute})
			return err
		},
		"Dispatch after a pause ended": func(d *dbtest.Database, _ berth.Run) error {
			if _, err := connect(t, d.URL).Exec(ctx, "UPDATE clusters SET paused_since = now() - interval '1h', paused_until = now() - interval '1min'"); err != nil {
				return err
			}
			_, err := d.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Minute})
			return err
		},
		"ReleaseStaleWatchers": func(d *dbtest.Database, _ berth.Run) error {
			return d.ReleaseStaleWatchers(ctx, berth.DefaultCluster)
		},
		"Edit": func(d *dbtest.Database, _ berth.Run) error {
			_, err := d.Edit(ctx, named(d, "candidate"), berth.Edit{Priority: new(5)})
			return err
		},
		"Cancel one that waits": func(d *dbtest.Database, _ berth.Run) error {
			_, err := d.Cancel(ctx, named(d, "candidate"), "somebody")
			return err
		},
		"Cancel one that runs": func(d *dbtest.Database, run berth.Run) error {
			_, err := d.Cancel(ctx, run.ID, "somebody")
			return err
		},
		"Pause": func(d *dbtest.Database, _ berth.Run) error {
			_, err := d.Pause(ctx, berth.DefaultCluster, berth.PauseRequest{Reason: "a test"})
			return err
		},
		"Resume": func(d *dbtest.Database, _ berth.Run) error {
			_, err := d.Resume(ctx, berth.DefaultCluster, "somebody")
			return err
		},
		"Remark": func(d *dbtest.Database, _ berth.Run) error { return d.Remark(ctx, berth.DefaultCluster) },
	}
	for name, operation := range operations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newQueue(t, 2, "a", "b")
			run := runningWithDeparture(t, d)
			expire(t, d, run)
			enqueue(t, d, request("candidate", "b"))

			h := hold(t, d.URL)
			h.gate()
			done := during(func() error { return operation(d, run) })
			awaitBlocked(t, d.URL, 1)
			type lock struct {
				Kind, Of string
				Granted  bool
			}
			held := collect[lock](t, connect(t, d.URL), `
				SELECT l.locktype AS kind, coalesce(l.relation::regclass::text, '') AS of, l.granted
				  FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				 WHERE a.datname = current_database() AND a.wait_event_type = 'Lock' AND l.locktype <> 'virtualxid'`)
			// A row that was locked or changed would show as a transactionid.
			if diff := cmp.Diff([]lock{{"relation", "dispatch_gate_1", false}}, held); diff != "" {
				t.Errorf("locks of %s while it waits for the gate (-want +got):\n%s", name, diff)
			}
			h.exec("commit")
			if err := done(); err != nil {
				t.Error(err)
			}
			checkNoRetries(t, d.Store)
		})
	}
}

// runningWithDeparture admits a backup of a that watchers may be left of.
func runningWithDeparture(tb testing.TB, d *dbtest.Database) berth.Run {
	tb.Helper()
	enqueue(tb, d, request("first", "a"))
	runs := dispatch(tb, d, 1)
	if _, err := connect(tb, d.URL).Exec(context.Background(), "INSERT INTO departures (cluster_id, seq) VALUES (1, $1)", runs[0].Seq); err != nil {
		tb.Fatal(err)
	}
	return runs[0]
}

// Whoever takes a row first and then the gate waits in a circle with a finish,
// who has the gate and wants the row.
func TestRowBeforeGateDeadlocks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	enqueue(t, d, request("b", "a"))
	run := dispatch(t, d, 1)[0]

	h := hold(t, d.URL)
	h.exec("UPDATE backups SET message = 'changed' WHERE seq = $1", run.Seq)
	finished := during(func() error {
		return d.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"})
	})
	awaitBlocked(t, d.URL, 1)
	_, err := h.conn.Exec(ctx, "lock table dispatch_gate_1 in exclusive mode")
	h.exec("rollback")
	if err := finished(); err != nil {
		t.Errorf("a finish survives a deadlock that somebody else made: %v", err)
	}
	const deadlock = "40P01"
	if sqlState(err) != deadlock && d.Retries()[deadlock] == 0 {
		t.Errorf("no deadlock: the holder got %v, the finish was run again for %v", err, d.Retries())
	}
}

func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// Everything that takes the gate, and a worker's writes that do not, at once on
// the same rows: no deadlock, and nothing is run again.
func TestGatedTransactionsNeverDeadlock(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 4)
	s := openStore(t, d.URL, 18)
	for i := range 60 {
		for _, name := range []string{"finished", "released", "reaped"} {
			enqueue(t, d, request(fmt.Sprintf("%s-%d", name, i), fmt.Sprintf("%s-*", name), fmt.Sprintf("%s-%d", name, i)))
		}
		runs := map[string]berth.Run{}
		for _, run := range dispatch(t, d, 3) {
			runs[run.Spec.IncludedNamespaces[0]] = run
			if err := d.Start(ctx, run); err != nil {
				t.Fatal(err)
			}
		}
		if len(runs) != 3 {
			t.Fatalf("admitted %v, want three", runs)
		}
		finished, released, reaped := runs["finished-*"], runs["released-*"], runs["reaped-*"]
		expire(t, d, reaped)
		ignoreLost := func(err error) error {
			if errors.Is(err, berth.ErrLeaseLost) {
				return nil
			}
			return err
		}
		// It runs, or it ended: who edits or cancels it comes too late.
		ignoreConflict := func(_ berth.Backup, err error) error {
			if berth.CodeOf(err) == berth.CodeStateConflict {
				return nil
			}
			return err
		}
		err := race(
			func() error {
				return s.Finish(ctx, finished, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"})
			},
			func() error { return s.Release(ctx, released, "the worker goes away") },
			func() error { _, err := s.Reap(ctx, 0); return err },
			func() error { return ignoreConflict(s.Edit(ctx, released.ID, berth.Edit{Priority: new(i % 3)})) },
			func() error { return ignoreConflict(s.Edit(ctx, reaped.ID, berth.Edit{Priority: new(i % 2)})) },
			func() error { return ignoreConflict(s.Cancel(ctx, finished.ID, "somebody")) },
			func() error {
				_, err := s.Pause(ctx, berth.DefaultCluster, berth.PauseRequest{Until: new(time.Now())})
				return err
			},
			func() error { _, err := s.Resume(ctx, berth.DefaultCluster, "somebody"); return err },
			func() error { return s.Remark(ctx, berth.DefaultCluster) },
			func() error { return s.SetConcurrentBackups(ctx, berth.DefaultCluster, 4+i%2) },
			func() error { return appear(d, fmt.Sprintf("reaped-x%d", i), fmt.Sprintf("released-x%d", i)) },
			func() error {
				_, err := s.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Minute})
				return err
			},
			func() error { return ignoreLost(s.Progress(ctx, reaped, berth.Progress{ItemsBackedUp: 1})) },
			func() error { return ignoreLost(s.Progress(ctx, released, berth.Progress{ItemsBackedUp: 1})) },
			func() error { return ignoreLost(s.Finalize(ctx, reaped, berth.Outcome{})) },
			func() error {
				_, err := s.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour, Held: []berth.Run{finished, released, reaped}})
				return err
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		// What was put back ends here, so that the next round begins alike.
		for _, run := range dispatch(t, d, 10) {
			if err := d.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := ignoreLost(d.Finish(ctx, reaped, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"})); err != nil {
			t.Fatal(err)
		}
	}
	checkNoRetries(t, s)
	checkNoRetries(t, d.Store)
}

// The gate is no part of a batch with the dequeue: that would be prepared before
// the wait, which fixes the snapshot; it reads what was before the wait, and
// 40001 is all it gets for a change. Sent with the BEGIN it is as good as alone.
func TestGateInOneBatchIsStale(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const serializationFailure = "40001"
	d := newQueue(t, 1, "a", "b")
	b := enqueue(t, d, request("first", "a"))
	enqueue(t, d, request("second", "b"))
	dispatch(t, d, 0)

	// The holder of the gate makes room for one more, and changes a candidate.
	h := hold(t, d.URL)
	h.gate()
	h.exec("UPDATE clusters SET concurrent_backups = 2 WHERE id = 1")
	h.exec("INSERT INTO slots (cluster_id, slot) VALUES (1, 2)")
	h.exec("UPDATE backups SET message = 'changed' WHERE id = $1", b.ID)

	batched := &holder{tb: t, conn: connect(t, d.URL)}
	batched.exec("begin isolation level serializable")
	var limit int
	var updateErr error
	stale := during(func() error {
		var batch pgx.Batch
		batch.Queue("lock table dispatch_gate_1 in exclusive mode")
		batch.Queue("SELECT concurrent_backups FROM clusters WHERE id = 1").QueryRow(func(row pgx.Row) error { return row.Scan(&limit) })
		batch.Queue("UPDATE backups SET message = 'dequeued' WHERE id = $1", b.ID).Exec(func(pgconn.CommandTag) error { return nil })
		updateErr = batched.conn.SendBatch(ctx, &batch).Close()
		_, err := batched.conn.Exec(ctx, "rollback")
		return err
	})
	awaitBlocked(t, d.URL, 1)
	var runs []berth.Run
	dispatched := during(func() error {
		done, err := d.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", Want: 2, LeaseTTL: time.Minute})
		runs = done.Runs
		return err
	})
	awaitBlocked(t, d.URL, 2)
	h.exec("commit")

	if err := errors.Join(stale(), dispatched()); err != nil {
		t.Fatal(err)
	}
	if limit != 1 || sqlState(updateErr) != serializationFailure {
		t.Errorf("batched: read a limit of %d, then %v: want the stale 1 and %s", limit, updateErr, serializationFailure)
	}
	if diff := cmp.Diff([]string{"first", "second"}, names(runs)); diff != "" {
		t.Errorf("the dequeue that waited at the gate sees what its holder committed (-want +got):\n%s", diff)
	}
	checkNoRetries(t, d.Store)
}

// A literal that nobody has ever named is claimed all the same, and naming it
// again uses no id up.
func TestLiteralThatNobodyHasNamed(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 9, "a")
	conn := connect(t, d.URL)
	lastID := func() (id int64) {
		t.Helper()
		if err := conn.QueryRow(context.Background(), "SELECT last_value FROM namespaces_id_seq").Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	checkClaims(t, d, enqueue(t, d, request("first", "ghost")), "ghost")
	named := lastID()
	checkClaims(t, d, enqueue(t, d, request("second", "ghost", "a")), "a", "ghost")
	for i := range 5 {
		enqueue(t, d, request(fmt.Sprintf("more-%d", i), "ghost", "a"))
	}
	if diff := cmp.Diff([]string{"first"}, names(dispatch(t, d, 9))); diff != "" {
		t.Errorf("%s: admitted (-want +got):\n%s", invariant2, diff)
	}
	if diff := cmp.Diff("RunningOverlap first ghost", waits(t, d)["second"]); diff != "" {
		t.Errorf("second waits for (-want +got):\n%s", diff)
	}
	// The namespace comes, goes and comes back: it is the same one.
	for _, exists := range []bool{true, false, true} {
		if err := d.ChangeNamespaces(context.Background(), berth.DefaultCluster, []berth.Namespace{{Name: "ghost", Exists: exists}}); err != nil {
			t.Fatal(err)
		}
	}
	if now := lastID(); now != named {
		t.Errorf("ids of namespaces went from %d to %d for a name that was known", named, now)
	}
}

// Two who name the same new namespaces in opposite order name them in one
// order, and never wait for each other in a circle.
func TestSameNewNamespacesInOppositeOrder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)

	t.Run("raced", func(t *testing.T) {
		for i := range 60 {
			var first, second berth.Backup
			x, y, z := fmt.Sprintf("x%d", i), fmt.Sprintf("y%d", i), fmt.Sprintf("z%d", i)
			err := race(
				func() (err error) { first, err = d.Enqueue(ctx, request("", x, y, z)); return err },
				func() (err error) { second, err = d.Enqueue(ctx, request("", z, y, x)); return err },
			)
			if err != nil {
				t.Fatal(err)
			}
			checkClaims(t, d, first, x, y, z)
			checkClaims(t, d, second, x, y, z)
		}
		checkNoRetries(t, d.Store)
	})

	t.Run("the wrong order deadlocks", func(t *testing.T) {
		name := func(h *holder, name string) error {
			_, err := h.conn.Exec(ctx, "INSERT INTO namespaces (cluster_id, name) VALUES (1, $1) ON CONFLICT DO NOTHING", name)
			return err
		}
		one, two := hold(t, d.URL), hold(t, d.URL)
		if err := errors.Join(name(one, "p"), name(two, "q")); err != nil {
			t.Fatal(err)
		}
		waiting := during(func() error { return name(one, "q") })
		awaitBlocked(t, d.URL, 1)
		err := name(two, "p")
		two.exec("rollback")
		if err = errors.Join(err, waiting()); sqlState(err) != "40P01" {
			t.Errorf("naming in opposite order: %v, want a deadlock", err)
		}
	})
}
