package migrations_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/db/dbtest"
	"github.com/berth-backup/berth/migrations"
)

// queue is a database with a cluster in whose queue something happens.
type queue struct {
	*dbtest.Database
	t    *testing.T
	conn *pgx.Conn
}

func newQueue(t *testing.T) *queue {
	t.Helper()
	d := dbtest.New(t)
	q := &queue{Database: d, t: t, conn: connect(t, d.Direct)}
	ctx := t.Context()
	q.must(d.SetStorageLocation(ctx, berth.StorageLocation{Cluster: berth.DefaultCluster, Name: berth.DefaultStorageLocation, URL: "file:///data"}))
	q.must(d.SetConcurrentBackups(ctx, berth.DefaultCluster, 10))
	_, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour})
	q.must(err)
	var all []berth.Namespace
	for _, name := range []string{"a", "b", "c", "d", "e", "web-1", "web-2"} {
		all = append(all, berth.Namespace{Name: name, Exists: true})
	}
	q.must(d.SyncNamespaces(ctx, berth.DefaultCluster, all))
	return q
}

func (q *queue) must(err error) {
	q.t.Helper()
	if err != nil {
		q.t.Fatal(err)
	}
}

func (q *queue) exec(sql string) {
	q.t.Helper()
	if _, err := q.conn.Exec(context.Background(), sql); err != nil {
		q.t.Fatalf("%s: %v", sql, err)
	}
}

// rows lists what a query gives, a row as one value of JSON.
func (q *queue) rows(sql string) []string {
	q.t.Helper()
	return list(q.t, q.conn, "SELECT to_jsonb(r)::text FROM ("+sql+") r")
}

func (q *queue) enqueue(name string, r berth.Request, includes ...string) uuid.UUID {
	q.t.Helper()
	r.Name = name
	if r.Spec.IncludedNamespaces == nil {
		r.Spec.IncludedNamespaces = includes
	}
	b, err := q.Enqueue(q.t.Context(), r)
	q.must(err)
	return b.ID
}

func (q *queue) dispatch(want int, leaseTTL time.Duration) []berth.Run {
	q.t.Helper()
	done, err := q.Dispatch(q.t.Context(), berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", Want: want, LeaseTTL: leaseTTL})
	q.must(err)
	return done.Runs
}

// run admits one backup, which has to be the one of that name.
func (q *queue) run(name string) berth.Run {
	q.t.Helper()
	runs := q.dispatch(1, time.Hour)
	if len(runs) != 1 || runs[0].Name != name {
		q.t.Fatalf("admitted %+v, want %s", runs, name)
	}
	return runs[0]
}

func (q *queue) finish(run berth.Run) {
	q.t.Helper()
	ctx := q.t.Context()
	q.must(q.Start(ctx, run))
	q.must(q.Finalize(ctx, run, berth.Outcome{}))
	q.must(q.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseCompleted, Reason: "Completed"}))
}

// loseLease lets the next backup be admitted and lose its worker.
func (q *queue) loseLease() {
	q.t.Helper()
	if runs := q.dispatch(1, -time.Second); len(runs) != 1 {
		q.t.Fatalf("admitted %+v", runs)
	}
	if n, err := q.Reap(q.t.Context(), 0); n != 1 || err != nil {
		q.t.Fatalf("reaped %d, %v", n, err)
	}
}

func (q *queue) audit(what string) {
	q.t.Helper()
	if found := q.rows("SELECT check_name, backup, detail FROM report.audit"); len(found) > 0 {
		q.t.Errorf("%s: report.audit has %q", what, found)
	}
}

// told is what readers see of the queue.
func (q *queue) told() []string {
	q.t.Helper()
	read, err := q.Queue(q.t.Context(), berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1000})
	q.must(err)
	var told []string
	for _, b := range slices.Concat(read.Running, read.Waiting) {
		text := fmt.Sprintf("%s %s of priority %d, asked for at %s, attempt %d, %+v", b.Name, b.Phase, b.Priority, b.EnqueuedAt, b.Attempt, b.Namespaces)
		if b.Queue != nil {
			by := b.Queue.BlockedBy[0]
			text += fmt.Sprintf(", position %d behind %d, %s %+v %q", b.Queue.Position, b.Queue.OverlappingAhead, by.Reason, by.Backup, by.Namespaces)
		}
		told = append(told, text)
	}
	return told
}

// migrated is the same database after a migration. A process does not go on
// over one.
func (q *queue) migrated(migrate func(url string) error) {
	q.t.Helper()
	q.Store.Close()
	q.must(migrate(q.Direct))
	var err error
	q.Store, err = db.Open(q.t.Context(), q.URL)
	q.must(err)
	q.t.Cleanup(q.Store.Close)
}

func (q *queue) downAndUp(between func()) {
	q.t.Helper()
	q.migrated(func(url string) error {
		if err := migrations.Down(q.t.Context(), url, migrations.Latest-1); err != nil {
			return err
		}
		between()
		return migrations.Up(q.t.Context(), url)
	})
}

// busy is a queue with all that the schema of version 1 can hold as it is meant:
// what runs, waits and ended, with and without priorities, due times and patterns,
// while a change of the namespaces, a departure and a second look are under way.
func busy(t *testing.T) *queue {
	q := newQueue(t)
	ctx := t.Context()
	priority := func(p int) berth.Request { return berth.Request{Priority: p} }
	hour := func(h int) *time.Time { return new(time.Now().Add(time.Duration(h) * time.Hour)) }

	q.enqueue("completed", priority(7), "a")
	q.finish(q.run("completed"))
	q.enqueue("retried", priority(-3), "e")
	run := q.run("retried")
	q.must(q.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"}))
	never := q.enqueue("never-due", berth.Request{Priority: 2, NotBefore: hour(1)}, "a")
	_, err := q.Cancel(ctx, never, "")
	q.must(err)

	// Admitted once, they have met their start deadline.
	q.enqueue("released", berth.Request{Priority: 90, StartDeadline: hour(1)}, "c")
	q.must(q.Release(ctx, q.run("released"), ""))
	q.exec("UPDATE backups SET start_deadline = clock_timestamp() - interval '1 minute' WHERE name = 'released'")
	q.finish(q.run("released"))
	q.enqueue("lost", priority(90), "c")
	q.loseLease()
	q.run("lost")

	// The urgent one goes first; plain was asked for half an hour before.
	q.enqueue("plain", priority(0), "a", "b")
	q.exec(`UPDATE backups SET created_at = created_at - interval '30 minutes', enqueued_at = enqueued_at - interval '30 minutes', order_key = order_key - interval '30 minutes' WHERE name = 'plain'`)
	q.exec(`UPDATE claims c SET order_key = b.order_key FROM backups b WHERE b.seq = c.seq`)
	q.exec(`DELETE FROM events WHERE seq = (SELECT seq FROM backups WHERE name = 'plain')`)
	q.enqueue("urgent", berth.Request{Priority: 60, StartDeadline: hour(2)}, "a")
	q.run("urgent")
	q.enqueue("pattern-runs", priority(30), "web-*")
	q.run("pattern-runs")
	q.must(q.SetConcurrentBackups(ctx, berth.DefaultCluster, 2))
	q.enqueue("given-back", berth.Request{Priority: 45, StartDeadline: hour(1)}, "d")
	q.must(q.SetConcurrentBackups(ctx, berth.DefaultCluster, 4))
	q.must(q.Release(ctx, q.run("given-back"), ""))
	q.must(q.SetConcurrentBackups(ctx, berth.DefaultCluster, 2))
	q.exec("UPDATE clusters SET item_block_worker_count = 3, max_queued = 1000")
	if _, err := q.ChangeSettings(ctx, berth.DefaultCluster, berth.SettingsChange{ItemBlockWorkerCount: new(2)}); err != nil {
		t.Fatal(err)
	}

	_, err = q.Retry(ctx, run.ID, "")
	q.must(err)
	q.enqueue("due", berth.Request{Priority: 15, NotBefore: hour(1)}, "b")
	q.exec(`UPDATE backups SET not_before = clock_timestamp(), order_key = clock_timestamp() - interval '15 minutes', enqueued_at = enqueued_at - interval '1 hour' WHERE name = 'due'`)
	q.exec(`UPDATE backups SET order_key = order_key_of(enqueued_at, not_before, priority) WHERE name = 'due'`)
	q.enqueue("pattern", priority(5), "web-*", "ghost")
	q.enqueue("elsewhere", priority(0), "x-*")
	all := q.enqueue("all", priority(-60))
	q.enqueue("all-but", berth.Request{Spec: berth.Spec{ExcludedNamespaces: []string{"a", "ghost"}}})
	q.enqueue("nothing", priority(1), "")
	q.enqueue("literal", priority(0), "web-1")
	q.dispatch(0, time.Hour)
	q.must(q.ChangeNamespaces(ctx, berth.DefaultCluster, []berth.Namespace{{Name: "web-3", Exists: true}, {Name: "b", Exists: true, Excluded: true}, {Name: "web-2"}}))
	q.exec("DELETE FROM events WHERE reason = 'NamespacesChanged'") // it excuses who was overtaken
	q.must(q.Predict(ctx, berth.DefaultCluster))
	q.dispatch(0, time.Hour)

	// One that moved has its witness until it is looked at again.
	_, err = q.Edit(ctx, all, berth.Edit{Priority: new(-50)})
	q.must(err)
	// What left is still somebody's witness, until that one was looked at.
	q.exec(`UPDATE backups SET blocked_by = (SELECT seq FROM backups WHERE name = 'completed'), evaluated = true, blocked_since = clock_timestamp() WHERE name = 'nothing'`)
	q.exec(`INSERT INTO departures (cluster_id, seq, order_key) SELECT cluster_id, seq, '-infinity' FROM backups WHERE name = 'completed'`)
	// From the pattern on, who waits for nobody is looked at again.
	q.exec(`INSERT INTO relooks (cluster_id, order_key, seq) SELECT cluster_id, order_key, seq FROM backups WHERE name = 'pattern'`)
	// A change of the namespaces went through the queue, but for its end.
	q.exec(`INSERT INTO amendments (cluster_id, order_key, seq, names, relabelled) VALUES (1, 'infinity', 0, '{y}', '{}')`)
	// The pause is over, and nobody noticed yet.
	q.exec(`UPDATE clusters SET paused_since = clock_timestamp() - interval '1 minute', paused_until = clock_timestamp(), pause_reason = 'upgrade'`)
	return q
}

// kept are the rows with the columns that the older schema has. Who is to be looked
// at again has no witness there, and each claim is of the newest version.
const kept = `
	SELECT 'backup' AS of, to_jsonb(b) - '{priority,not_before,start_deadline,retry_at,first_ready_at,cancel_requested_at,needs_inventory,fresh,known}'::text[]
	       - '{enqueued_at,evaluated,blocked_by,inventory_version}'::text[] AS row FROM backups b
	UNION ALL SELECT 'claim', to_jsonb(c) FROM claims c
	UNION ALL SELECT 'lease', to_jsonb(l) FROM leases l
	UNION ALL SELECT 'slot', to_jsonb(s) FROM slots s
	UNION ALL SELECT 'namespace', to_jsonb(n) FROM namespaces n
	UNION ALL SELECT 'worker', to_jsonb(w) - '{max_backups,renewed_at}'::text[] FROM workers w
	UNION ALL SELECT 'departure', to_jsonb(d) - '{order_key,watcher}'::text[] FROM departures d
	UNION ALL SELECT 'event', to_jsonb(e) - 'detail' FROM events e
	UNION ALL SELECT 'cluster', to_jsonb(c) - '{limited_at,item_block_worker_count,max_queued,settings_version,paused_since,paused_until,pause_reason,paused_by,seen_at,has_worker,worker_changed_at,reachable}'::text[] FROM clusters c
	UNION ALL SELECT 'location', to_jsonb(l) - '{available,message,checked_at,reached_at}'::text[] FROM storage_locations l
	ORDER BY 1, 2`

// readAgain is what the older schema does not have, and what comes back.
const readAgain = `
	SELECT name, priority, greatest(enqueued_at, not_before) AS enqueued_at,
	       CASE WHEN phase = 'Queued' OR slot IS NOT NULL THEN first_ready_at END AS first_ready_at, needs_inventory
	  FROM backups ORDER BY seq`

// A queue that is migrated down and up again is the same, and goes on.
func TestDownAndUpWithData(t *testing.T) {
	t.Parallel()
	q := busy(t)
	q.audit("before")
	rows, columns, told := q.rows(kept), q.rows(readAgain), q.told()
	const reasons = "SELECT name, wait_reason, blocker_name, names, except_names, wide FROM backup_rows WHERE phase = 'Queued' ORDER BY order_key, seq"
	waits := q.rows(reasons)
	differ := func(what string, before, after []string) {
		t.Helper()
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s (-before +after):\n%s", what, diff)
		}
	}
	q.downAndUp(func() {
		differ("rows of version 1", rows, q.rows(kept))
		differ("what waits for what in version 1", waits, q.rows(reasons))
		for rule, sql := range map[string]string{
			"nobody's claim is resolved anew":                "SELECT b.name FROM backups b JOIN clusters c ON c.id = b.cluster_id WHERE phase = 'Queued' AND b.inventory_version <> c.inventory_version",
			"who was looked at has a witness, or is fresh":   "SELECT name FROM backups WHERE blocked_by IS NOT NULL AND NOT evaluated",
			"a witness is in the way, or departs":            "SELECT b.name FROM backups b JOIN backups w ON w.seq = b.blocked_by WHERE NOT in_the_way(w, b) AND w.seq NOT IN (SELECT seq FROM departures)",
			"who may have got somebody ahead is looked at":   "SELECT b.name FROM backups b JOIN backups p ON p.name = 'pattern' WHERE b.phase = 'Queued' AND (b.order_key, b.seq) >= (p.order_key, p.seq) AND b.blocked_by IS NULL AND b.evaluated",
			"what counts as asked for is when it became due": "SELECT name FROM backups WHERE name = 'due' AND enqueued_at <> order_key + interval '15 minutes'",
		} {
			if found := q.rows(sql); len(found) > 0 {
				t.Errorf("version 1: %s, but not %q", rule, found)
			}
		}
		if kept := q.rows("SELECT name FROM backups WHERE blocked_by IS NOT NULL"); len(kept) < 3 {
			t.Errorf("of the witnesses only %q are kept", kept)
		}
	})
	differ("rows", rows, q.rows(kept))
	differ("columns", columns, q.rows(readAgain))
	differ("what is told", told, q.told())
	q.audit("after")

	q.exec("UPDATE workers SET started_at = clock_timestamp()")
	order := []string{}
	for _, run := range q.running() {
		q.finish(run)
	}
	for {
		runs := q.dispatch(1, time.Hour)
		if len(runs) == 0 {
			break
		}
		order = append(order, runs[0].Name)
		q.finish(runs[0])
	}
	if want := []string{"given-back", "plain", "due", "pattern", "nothing", "elsewhere", "all-but", "literal", "retried", "all"}; !slices.Equal(order, want) {
		t.Errorf("they run in the order %q, want %q", order, want)
	}
	q.audit("at the end")
}

// running are the runs that somebody has.
func (q *queue) running() []berth.Run {
	q.t.Helper()
	rows, err := q.conn.Query(context.Background(), "SELECT seq, id, name, fence FROM backups WHERE slot IS NOT NULL ORDER BY seq")
	q.must(err)
	runs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r berth.Run, err error) {
		r.Cluster = berth.DefaultCluster
		return r, row.Scan(&r.Seq, &r.ID, &r.Name, &r.Fence)
	})
	q.must(err)
	return runs
}

// everything is each row of each table, and the schema.
func (q *queue) everything() []string {
	q.t.Helper()
	all := list(q.t, q.conn, schema)
	for _, table := range list(q.t, q.conn, "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1") {
		for _, row := range q.rows("SELECT * FROM " + table) {
			all = append(all, table+" "+row)
		}
	}
	slices.Sort(all)
	return all
}

// What the older schema would let run at the wrong time, or never, is refused with
// what to do first, and nothing is changed; when that is done, it is not.
func TestDownRefusesWhatTheOlderSchemaCannotHold(t *testing.T) {
	t.Parallel()
	hour := func() *time.Time { return new(time.Now().Add(time.Hour)) }
	away := new(time.Time)
	type remedy func(t *testing.T, q *queue)
	edit := func(id uuid.UUID, e berth.Edit) remedy {
		return func(t *testing.T, q *queue) {
			_, err := q.Edit(t.Context(), id, e)
			q.must(err)
		}
	}
	resume := func(t *testing.T, q *queue) {
		_, err := q.Resume(t.Context(), berth.DefaultCluster, "")
		q.must(err)
	}
	workIn := func(t *testing.T, q *queue) { q.dispatch(0, time.Hour) }
	for name, test := range map[string]struct {
		make func(t *testing.T, q *queue) remedy
		want string
	}{
		"notBefore": {func(t *testing.T, q *queue) remedy {
			return edit(q.enqueue("later", berth.Request{NotBefore: hour()}, "a"), berth.Edit{NotBefore: away})
		}, "backups that wait for their notBefore (1): first cancel those with a notBefore, take it away, or wait until they are Queued"},
		"due, and nobody noticed": {func(t *testing.T, q *queue) remedy {
			q.enqueue("later", berth.Request{NotBefore: hour()}, "a")
			q.exec("UPDATE backups SET not_before = enqueued_at, order_key = enqueued_at")
			return workIn
		}, "backups that wait for their notBefore (1): first "},
		"back-off": {func(t *testing.T, q *queue) remedy {
			id := q.enqueue("lost", berth.Request{}, "a")
			q.loseLease()
			q.loseLease()
			return func(t *testing.T, q *queue) {
				_, err := q.Cancel(t.Context(), id, "")
				q.must(err)
			}
		}, "backups in back-off (1): first cancel those in back-off, or wait until they are Queued"},
		"startDeadline": {func(t *testing.T, q *queue) remedy {
			q.enqueue("first", berth.Request{StartDeadline: hour()}, "a")
			id := q.enqueue("second", berth.Request{StartDeadline: hour()}, "a")
			q.run("first")
			return edit(id, berth.Edit{StartDeadline: away})
		}, "backups that wait with a startDeadline (1): first cancel those with a startDeadline, take it away, or wait until they were admitted"},
		"a running backup is being canceled": {func(t *testing.T, q *queue) remedy {
			id := q.enqueue("canceled", berth.Request{}, "a")
			run := q.run("canceled")
			_, err := q.Cancel(t.Context(), id, "")
			q.must(err)
			return func(t *testing.T, q *queue) { q.must(q.Release(t.Context(), run, "")) }
		}, "running backups that are being canceled (1): first wait until those that are being canceled have ended"},
		"a paused queue": {func(t *testing.T, q *queue) remedy {
			_, err := q.Pause(t.Context(), berth.DefaultCluster, berth.PauseRequest{Until: hour()})
			q.must(err)
			return resume
		}, "paused queues (1): first resume the paused queues"},
		"a namespace that is being worked in": {func(t *testing.T, q *queue) remedy {
			q.enqueue("one", berth.Request{}, "web-*")
			q.enqueue("other", berth.Request{}, "web-1", "web-9")
			q.dispatch(0, time.Hour)
			q.exec("INSERT INTO namespaces (cluster_id, name, present) VALUES (1, 'web-8', true)")
			q.exec("UPDATE clusters SET inventory_version = inventory_version + 1")
			q.exec("INSERT INTO amendments (cluster_id, order_key, seq, names, relabelled) VALUES (1, '-infinity', 0, '{web-8}', '{}')")
			q.enqueue("since", berth.Request{}, "web-*")
			return workIn
		}, "queued backups that a change of the namespaces has not reached (1): first let a berth server or worker work the change of the namespaces in, which takes it moments"},
		"a label that is being worked in": {func(t *testing.T, q *queue) remedy {
			q.enqueue("but", berth.Request{Spec: berth.Spec{ExcludedNamespaces: []string{"a"}}})
			q.enqueue("literal", berth.Request{}, "b", "c")
			q.enqueue("other", berth.Request{}, "c")
			q.enqueue("all", berth.Request{})
			q.exec("UPDATE namespaces SET excluded = true WHERE name = 'b'")
			q.exec("UPDATE clusters SET inventory_version = inventory_version + 1")
			q.exec("INSERT INTO amendments (cluster_id, order_key, seq, names, relabelled) VALUES (1, '-infinity', 0, '{b}', '{b}')")
			return workIn
		}, "queued backups that a change of the namespaces has not reached (2): first "},
		"several": {func(t *testing.T, q *queue) remedy {
			id := q.enqueue("later", berth.Request{NotBefore: hour(), StartDeadline: new(time.Now().Add(2 * time.Hour))}, "a")
			_, err := q.Pause(t.Context(), berth.DefaultCluster, berth.PauseRequest{})
			q.must(err)
			return func(t *testing.T, q *queue) {
				edit(id, berth.Edit{NotBefore: away, StartDeadline: away})(t, q)
				resume(t, q)
			}
		}, "backups that wait for their notBefore (1), backups that wait with a startDeadline (1), paused queues (1): first " +
			"cancel those with a notBefore, take it away, or wait until they are Queued; " +
			"cancel those with a startDeadline, take it away, or wait until they were admitted; resume the paused queues"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			remedy := test.make(t, q)
			before := q.everything()
			err := migrations.Down(t.Context(), q.Direct, migrations.Latest-1)
			if err == nil || !strings.HasPrefix(err.Error(), "migrate: the schema of version 1 cannot hold "+test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("down: %v, want %q", err, test.want)
			}
			if diff := cmp.Diff(before, q.everything()); diff != "" {
				t.Errorf("a refused migration changed (-before +after):\n%s", diff)
			}
			checkVersion(t, q.Direct, migrations.Latest, false)
			remedy(t, q)
			q.downAndUp(func() {})
			q.audit("after")
		})
	}
}
