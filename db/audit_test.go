package db_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

// finding is a row of report.audit.
type finding struct {
	CheckName string
	Cluster   string
	BackupID  *string
	Backup    *string
	Detail    string
	Since     *time.Time
}

func (f finding) String() string {
	if f.Backup == nil {
		return f.CheckName
	}
	return f.CheckName + " " + *f.Backup
}

func audit(tb testing.TB, conn *pgx.Conn) []finding {
	tb.Helper()
	return collect[finding](tb, conn, "SELECT check_name, cluster, backup_id::text, backup, detail, since FROM report.audit ORDER BY check_name, backup")
}

// checkAudit compares the findings, told as check and backup.
func checkAudit(tb testing.TB, conn *pgx.Conn, what string, want ...string) {
	tb.Helper()
	var got []string
	for _, f := range audit(tb, conn) {
		got = append(got, f.String())
		if f.Cluster != berth.DefaultCluster || f.Detail == "" || (f.Backup == nil) != (f.BackupID == nil) {
			tb.Errorf("%s: the row tells too little: %+v", what, f)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("%s: report.audit (-want +got):\n%s", what, diff)
	}
}

// newAudited is a healthy queue with a backup in every state: first and second
// run on a and b, behind waits for first, later is New, ended is Completed.
func newAudited(t *testing.T) *dbtest.Database {
	t.Helper()
	ctx := context.Background()
	d := newQueue(t, 2, "a", "b", "c")
	enqueue(t, d, request("ended", "a"))
	finish(t, d, dispatch(t, d, 1)[0])
	enqueue(t, d, request("first", "a"))
	enqueue(t, d, request("second", "b"))
	if runs := dispatch(t, d, 2); len(runs) != 2 {
		t.Fatalf("%d run", len(runs))
	}
	enqueue(t, d, request("behind", "a"))
	later := request("later", "c")
	later.NotBefore = new(time.Now().Add(time.Hour))
	enqueue(t, d, later)
	if _, err := d.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster}); err != nil {
		t.Fatal(err)
	}
	return d
}

// Each rule of the audit finds what breaks it, and nothing else does.
func TestAuditFindsPlantedViolations(t *testing.T) {
	t.Parallel()
	d := newAudited(t)
	h := &holder{tb: t, conn: connect(t, d.Direct)}
	checkAudit(t, h.conn, "a healthy queue")
	fired := map[string]bool{"IdleWhileAdmissible": true} // TestAuditFindsIdleness
	// Nothing but the constraints of the schema stands against these.
	const longAgo = "UPDATE backups SET enqueued_at = enqueued_at - interval '2 hours', order_key = order_key - interval '2 hours' WHERE name = 'behind'; " +
		"UPDATE claims SET order_key = order_key - interval '2 hours' WHERE seq = (SELECT seq FROM backups WHERE name = 'behind'); " +
		"DELETE FROM events WHERE seq = (SELECT seq FROM backups WHERE name = 'behind') OR reason = 'NamespacesChanged'; " +
		"UPDATE backups SET created_at = created_at - interval '2 hours' WHERE name = 'behind'; "
	for name, test := range map[string]struct {
		plant string
		want  []string
	}{
		"a slot that is not there": {"UPDATE backups SET slot = 7 WHERE name = 'first'", []string{"RunningWithoutSlot first"}},
		"running without a slot": {"ALTER TABLE backups DROP CONSTRAINT backups_slot_while_running; UPDATE backups SET slot = NULL WHERE name = 'first'",
			[]string{"RunningWithoutSlot first", "WitnessNotInTheWay behind"}},
		"one slot for two":         {"DROP INDEX backups_slot; UPDATE backups SET slot = 1 WHERE name = 'second'", []string{"SlotShared second"}},
		"admitted above the limit": {`UPDATE clusters SET concurrent_backups = 1`, []string{"AboveLimit second"}},
		"lowered after the last admission": {
			`UPDATE clusters SET concurrent_backups = 1; INSERT INTO events (at, cluster_id, reason, detail) VALUES (clock_timestamp(), 1, 'LimitChanged', '{"setting": "concurrentBackups"}')`, nil},
		"lowered by an event without detail": {
			`UPDATE clusters SET concurrent_backups = 1; INSERT INTO events (at, cluster_id, reason) VALUES (clock_timestamp(), 1, 'LimitChanged')`, nil},
		"another limit was changed": {
			`UPDATE clusters SET concurrent_backups = 1; INSERT INTO events (at, cluster_id, reason, detail) VALUES (clock_timestamp(), 1, 'LimitChanged', '{"setting": "maxQueued"}')`,
			[]string{"AboveLimit second"}},
		"two run on a namespace": {
			`ALTER TABLE backups DROP CONSTRAINT backups_running_disjoint;
			 UPDATE backups SET claim = claim_some(1, ARRAY(SELECT id FROM namespaces WHERE name IN ('a', 'b'))) WHERE name = 'second';
			 INSERT INTO claims SELECT 1, n.id, 0, b.order_key, b.seq FROM backups b, namespaces n WHERE b.name = 'second' AND n.name = 'a'`,
			[]string{"NamespaceShared second"}},
		"overtaken by one of the same namespace": {longAgo, []string{"Overtaken behind"}},
		"overtaken by everything": {
			`ALTER TABLE backups DROP CONSTRAINT backups_running_disjoint; UPDATE backups SET scope = 'everything', claim = claim_everything(1) WHERE name = 'second';
			 DELETE FROM claims WHERE seq = (SELECT seq FROM backups WHERE name = 'second'); ` + longAgo,
			[]string{"NamespaceShared second", "Overtaken behind", "Overtaken behind"}},
		"everything was overtaken": {
			`UPDATE backups SET scope = 'everything', claim = claim_everything(1) WHERE name = 'behind'; DELETE FROM claims WHERE seq = (SELECT seq FROM backups WHERE name = 'behind'); ` + longAgo,
			[]string{"Overtaken behind", "Overtaken behind"}},
		"moved ahead since": {longAgo + `INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason) SELECT clock_timestamp(), 1, seq, 'Queued', 'Queued', 'Edited' FROM backups WHERE name = 'behind'`, nil},
		"it came since":     {longAgo + `INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason) SELECT clock_timestamp(), 1, seq, 'New', 'Queued', 'Due' FROM backups WHERE name = 'behind'`, nil},
		"it was marked since": {longAgo + `INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason) SELECT clock_timestamp(), 1, seq, 'Queued', 'Queued', 'RunningOverlap' FROM backups WHERE name = 'behind'`,
			[]string{"Overtaken behind"}},
		"its claim changed since": {longAgo + "INSERT INTO events (at, cluster_id, reason) VALUES (clock_timestamp(), 1, 'NamespacesChanged')", nil},
		"a witness that ended":    {"UPDATE backups SET blocked_by = (SELECT seq FROM backups WHERE name = 'ended') WHERE name = 'behind'", []string{"WitnessNotInTheWay behind"}},
		"a witness that is gone":  {"UPDATE backups SET blocked_by = 0 WHERE name = 'behind'", []string{"WitnessNotInTheWay behind"}},
		"a witness that is disjoint": {"UPDATE backups SET blocked_by = (SELECT seq FROM backups WHERE name = 'second') WHERE name = 'behind'",
			[]string{"WitnessNotInTheWay behind"}},
		"a witness that departs": {
			"UPDATE backups SET blocked_by = (SELECT seq FROM backups WHERE name = 'ended') WHERE name = 'behind'; INSERT INTO departures SELECT 1, seq FROM backups WHERE name = 'ended'", nil},
		"a claim too few":             {"DELETE FROM claims WHERE seq = (SELECT seq FROM backups WHERE name = 'behind')", []string{"ClaimsDiffer behind"}},
		"a claim too many":            {"INSERT INTO claims SELECT 1, n.id, 1, b.order_key, b.seq FROM backups b, namespaces n WHERE b.name = 'behind' AND n.name = 'b'", []string{"ClaimsDiffer behind"}},
		"the claim of another":        {"UPDATE claims SET namespace_id = (SELECT id FROM namespaces WHERE name = 'c') WHERE seq = (SELECT seq FROM backups WHERE name = 'behind')", []string{"ClaimsDiffer behind"}},
		"a claim that is held":        {"UPDATE claims SET rank = 0 WHERE seq = (SELECT seq FROM backups WHERE name = 'behind')", []string{"ClaimsDiffer behind"}},
		"a claim that is not held":    {"UPDATE claims SET rank = 1 WHERE seq = (SELECT seq FROM backups WHERE name = 'first')", []string{"ClaimsDiffer first"}},
		"a claim at another place":    {"UPDATE claims SET order_key = order_key + interval '1 second' WHERE seq = (SELECT seq FROM backups WHERE name = 'behind')", []string{"ClaimsDiffer behind"}},
		"rows of a wide claim":        {"UPDATE backups SET scope = 'everything', claim = claim_everything(1) WHERE name = 'behind'", []string{"ClaimsDiffer behind"}},
		"New with rows":               {"INSERT INTO claims SELECT 1, n.id, 1, b.order_key, b.seq FROM backups b, namespaces n WHERE b.name = 'later' AND n.name = 'c'", []string{"NewWithClaims later"}},
		"New with a claim":            {"ALTER TABLE backups DROP CONSTRAINT backups_new_claims_nothing; UPDATE backups SET claim = claim_everything(1) WHERE name = 'later'", []string{"NewWithClaims later"}},
		"ended with claims":           {"INSERT INTO claims SELECT 1, n.id, 0, b.order_key, b.seq FROM backups b, namespaces n WHERE b.name = 'ended' AND n.name = 'c'", []string{"EndedWithClaims ended"}},
		"ended with a lease":          {"INSERT INTO leases SELECT seq, 1, fence, 'w', clock_timestamp() FROM backups WHERE name = 'ended'", []string{"LeaseWithoutRunning ended"}},
		"queued with a lease":         {"INSERT INTO leases SELECT seq, 1, fence, 'w', clock_timestamp() FROM backups WHERE name = 'behind'", []string{"LeaseWithoutRunning behind"}},
		"running without a lease":     {"DELETE FROM leases WHERE seq = (SELECT seq FROM backups WHERE name = 'first')", []string{"RunningWithoutLease first"}},
		"the lease of another fence":  {"UPDATE leases SET fence = fence - 1 WHERE seq = (SELECT seq FROM backups WHERE name = 'first')", []string{"FencesDiffer first"}},
		"another priority":            {"UPDATE backups SET priority = 1 WHERE name = 'behind'", []string{"OrderKeyDiffers behind"}},
		"another notBefore":           {"UPDATE backups SET not_before = not_before + interval '1 second' WHERE name = 'later'", []string{"OrderKeyDiffers later"}},
		"a phase without its event":   {"UPDATE backups SET phase = 'InProgress' WHERE name = 'first'", []string{"PhaseNotInEvents first"}},
		"a backup without any event":  {"DELETE FROM events WHERE seq = (SELECT seq FROM backups WHERE name = 'behind')", []string{"PhaseNotInEvents behind"}},
		"an event without its phase":  {"INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason) SELECT clock_timestamp(), 1, seq, 'Completed', 'Deleting', 'Deleting' FROM backups WHERE name = 'ended'", []string{"PhaseNotInEvents ended"}},
		"events that were dropped":    {"DELETE FROM events WHERE id <= (SELECT max(id) FROM events WHERE seq = (SELECT seq FROM backups WHERE name = 'ended'))", nil},
		"past its deadline":           {"UPDATE backups SET start_deadline = clock_timestamp() - interval '31 seconds' WHERE name IN ('behind', 'later', 'first', 'ended')", []string{"WaitingPastDeadline behind", "WaitingPastDeadline later"}},
		"at its deadline":             {"UPDATE backups SET start_deadline = clock_timestamp() - interval '1 second' WHERE name = 'behind'", nil},
		"its deadline was met before": {"UPDATE backups SET start_deadline = clock_timestamp() - interval '1 hour', first_ready_at = clock_timestamp() WHERE name = 'behind'", nil},
		"a pause that is over":        {"UPDATE clusters SET paused_since = clock_timestamp(), paused_until = clock_timestamp() - interval '31 seconds'", []string{"PausedPastEnd"}},
		"a pause that just ended":     {"UPDATE clusters SET paused_since = clock_timestamp(), paused_until = clock_timestamp() - interval '1 second'", nil},
	} {
		for _, found := range test.want {
			fired[strings.Fields(found)[0]] = true
		}
		h.exec("BEGIN")
		h.exec("SET LOCAL session_replication_role = replica")
		h.exec(test.plant)
		checkAudit(t, h.conn, name, test.want...)
		h.exec("ROLLBACK")
	}
	checkAudit(t, h.conn, "in the end")
	// Every check of the view was seen to fire.
	var view string
	if err := h.conn.QueryRow(t.Context(), "SELECT pg_get_viewdef('report.audit'::regclass)").Scan(&view); err != nil {
		t.Fatal(err)
	}
	checks := regexp.MustCompile(`'(\w+)'::text`).FindAllStringSubmatch(view, -1)
	if len(checks) == 0 {
		t.Errorf("no checks in %s", view)
	}
	for _, check := range checks {
		if !fired[check[1]] {
			t.Errorf("no violation of %s was planted", check[1])
		}
	}
}

// Invariant 4: a free slot, a worker with room and an admissible backup never
// stand beside each other for longer than the wake-up.
func TestAuditFindsIdleness(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 2, "a", "b")
	enqueue(t, d, request("runs", "a"))
	dispatch(t, d, 1)
	enqueue(t, d, request("behind", "a"))
	enqueue(t, d, request("free", "b"))
	enqueue(t, d, request("pattern", "?"))
	// One worker is full, the other takes any number.
	for worker, most := range map[string]*int{"w": new(1), "idle": nil} {
		if _, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: worker, MaxBackups: most, LeaseTTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster}); err != nil {
		t.Fatal(err)
	}
	h := &holder{tb: t, conn: connect(t, d.Direct)}
	checkAudit(t, h.conn, "a moment ago")
	// All of it happened an hour ago. The events of then are dropped.
	h.exec(`UPDATE backups SET created_at = created_at - interval '1 hour', enqueued_at = enqueued_at - interval '1 hour', order_key = order_key - interval '1 hour'`)
	h.exec("UPDATE claims SET order_key = order_key - interval '1 hour'")
	h.exec("UPDATE clusters SET inventory_synced_at = inventory_synced_at - interval '1 hour'")
	h.exec("UPDATE workers SET started_at = started_at - interval '1 hour'")
	h.exec("DELETE FROM events")
	event := func(values string) string {
		return "INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason) SELECT clock_timestamp(), 1, " + values
	}
	const another = "INSERT INTO backups (id, cluster_id, name, phase, spec, location, created_at, enqueued_at, keep_for, order_key, scope, has_pattern, resolved, inventory_version, claim) " +
		"SELECT gen_random_uuid(), 1, 'another', 'Queued', '{}', 'default', now() - interval '1 hour', now() - interval '1 hour', '1h', now() - interval '1 hour', 'none', false, true, 1, '{}'"
	for name, test := range map[string]struct {
		plant string
		want  []string
	}{
		"idle for an hour":                   {"", []string{"IdleWhileAdmissible free"}},
		"marked, and nothing admitted":       {event("seq, 'Queued', 'Queued', 'Dispatch' FROM backups WHERE name = 'free'"), []string{"IdleWhileAdmissible free"}},
		"another one was started":            {event("seq, 'ReadyToStart', 'InProgress', 'Started' FROM backups WHERE name = 'runs'") + "; UPDATE backups SET phase = 'InProgress' WHERE name = 'runs'", []string{"IdleWhileAdmissible free"}},
		"another one was enqueued":           {another + "; " + event("seq, '', 'Queued', 'Enqueued' FROM backups WHERE name = 'another'"), []string{"IdleWhileAdmissible free"}},
		"another one ended":                  {another + "; UPDATE backups SET phase = 'Completed' WHERE name = 'another'; " + event("seq, 'Finalizing', 'Completed', 'Completed' FROM backups WHERE name = 'another'"), nil},
		"another one was canceled":           {another + "; UPDATE backups SET phase = 'Canceled' WHERE name = 'another'; " + event("seq, 'Queued', 'Canceled', 'Canceled' FROM backups WHERE name = 'another'"), nil},
		"another one moved":                  {another + "; " + event("seq, 'Queued', 'Queued', 'Edited' FROM backups WHERE name = 'another'"), nil},
		"it came just now":                   {event("seq, 'New', 'Queued', 'Due' FROM backups WHERE name = 'free'"), nil},
		"something of the cluster changed":   {event("NULL, NULL, NULL, 'LimitChanged'"), nil},
		"paused":                             {"UPDATE clusters SET paused_since = clock_timestamp()", nil},
		"a pause ended just now":             {"UPDATE clusters SET paused_since = clock_timestamp(), paused_until = clock_timestamp()", nil},
		"the namespaces were not known":      {"UPDATE clusters SET inventory_synced_at = NULL", nil},
		"the namespaces are known just now":  {"UPDATE clusters SET inventory_synced_at = clock_timestamp()", nil},
		"no place is free":                   {"UPDATE clusters SET concurrent_backups = 1", nil},
		"the worker is gone":                 {"DELETE FROM workers WHERE id = 'idle'", nil},
		"the worker is silent":               {"UPDATE workers SET expires_at = clock_timestamp() WHERE id = 'idle'", nil},
		"the worker was last heard of then":  {"UPDATE workers SET renewed_at = clock_timestamp() - interval '1 hour' WHERE id = 'idle'", nil},
		"the worker takes nothing more":      {"UPDATE workers SET max_backups = 0 WHERE id = 'idle'", nil},
		"the other worker has room too":      {"DELETE FROM workers WHERE id = 'idle'; UPDATE workers SET max_backups = 2", []string{"IdleWhileAdmissible free"}},
		"the worker came just now":           {"UPDATE workers SET started_at = clock_timestamp() WHERE id = 'idle'", nil},
		"its location is away":               {"UPDATE storage_locations SET available = false", nil},
		"it is not resolved":                 {"UPDATE backups SET resolved = false, claim = claim_everything(1) WHERE name = 'free'; DELETE FROM claims WHERE seq = (SELECT seq FROM backups WHERE name = 'free')", nil},
		"its deadline is over":               {"UPDATE backups SET start_deadline = clock_timestamp() WHERE name = 'free'", nil},
		"a namespace is in the way":          {"UPDATE backups SET claim = claim_everything(1), scope = 'everything' WHERE name = 'behind'; DELETE FROM claims WHERE seq = (SELECT seq FROM backups WHERE name = 'behind')", nil},
		"the first goes, the pattern may":    {another + "; DELETE FROM claims WHERE seq IN (SELECT seq FROM backups WHERE name IN ('runs', 'behind', 'free')); UPDATE backups SET claim = '{}' WHERE name IN ('runs', 'behind', 'free'); UPDATE storage_locations SET available = true; UPDATE backups SET location = 'gone' WHERE name IN ('behind', 'free', 'another')", []string{"IdleWhileAdmissible pattern"}},
		"the cluster of a pattern is silent": {"DELETE FROM claims WHERE seq IN (SELECT seq FROM backups WHERE name IN ('runs', 'behind', 'free')); UPDATE backups SET claim = '{}' WHERE name IN ('runs', 'behind', 'free'); UPDATE backups SET location = 'gone' WHERE name IN ('behind', 'free'); UPDATE clusters SET seen_at = clock_timestamp() - interval '61 seconds'", nil},
	} {
		h.exec("BEGIN")
		h.exec("SET LOCAL session_replication_role = replica")
		h.exec(test.plant)
		var got []string
		for _, f := range audit(t, h.conn) {
			if f.CheckName == "IdleWhileAdmissible" {
				got = append(got, f.String())
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		h.exec("ROLLBACK")
	}
}

// A worker that was silent is no worker that had nothing to do meanwhile.
func TestWorkerStartsAnewAfterSilence(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)
	h := &holder{tb: t, conn: connect(t, d.Direct)}
	startedLongAgo := func() bool {
		t.Helper()
		if _, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		var longAgo bool
		if err := h.conn.QueryRow(ctx, "SELECT started_at < clock_timestamp() - interval '1 minute' FROM workers").Scan(&longAgo); err != nil {
			t.Fatal(err)
		}
		return longAgo
	}
	h.exec("UPDATE workers SET started_at = clock_timestamp() - interval '1 hour'")
	if !startedLongAgo() {
		t.Error("a renewal makes the worker start anew")
	}
	h.exec("UPDATE workers SET expires_at = clock_timestamp() - interval '1 second'")
	if startedLongAgo() {
		t.Error("a worker that was silent for longer than its lease goes on")
	}
}

// What reports read keeps its names, and each column says what it is.
func TestReportColumns(t *testing.T) {
	t.Parallel()
	conn := connect(t, newQueue(t, 1).Direct)
	type column struct{ View, Name, Type, Comment string }
	var got []string
	for _, c := range collect[column](t, conn, `
		SELECT c.relname AS view, a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, coalesce(col_description(c.oid, a.attnum), '') AS comment
		  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		 WHERE c.relnamespace = 'report'::regnamespace AND a.attnum > 0 AND c.relname NOT LIKE 'audit\_%'
		 ORDER BY c.relname, a.attnum`) {
		got = append(got, fmt.Sprintf("%s.%s %s", c.View, c.Name, c.Type))
		if c.Comment == "" {
			t.Errorf("%s.%s has no comment", c.View, c.Name)
		}
	}
	if diff := cmp.Diff([]string{
		"audit.check_name text", "audit.cluster text", "audit.backup_id uuid", "audit.backup text", "audit.detail text", "audit.since timestamp with time zone",
		"eta_calibration.cluster text", "eta_calibration.day date", "eta_calibration.predictions bigint", "eta_calibration.started bigint",
		"eta_calibration.started_before_p90 bigint", "eta_calibration.overdue bigint", "eta_calibration.share double precision",
	}, got); diff != "" {
		t.Errorf("the columns of the reports (-want +got):\n%s", diff)
	}
	bare := collect[struct{ Name string }](t, conn, `
		SELECT relname AS name FROM pg_class WHERE relnamespace = 'report'::regnamespace AND obj_description(oid) IS NULL`)
	if len(bare) > 0 {
		t.Errorf("views without a comment: %v", bare)
	}
}

// The audit of 10,000 backups takes a moment, not a second for each hundred:
// nothing in it compares every backup with every other one. The bound leaves a
// busy machine room.
func TestAuditIsCheap(t *testing.T) {
	t.Parallel()
	const backups, bound = 10000, 2 * time.Second
	for shape, waiting := range map[string]string{
		"disjoint and fresh": "claim_some(1, ARRAY[n.id]), 'some', false, NULL::bigint",
		"behind one hot namespace": "claim_some(1, ARRAY[(SELECT id FROM namespaces WHERE name = 'a')]), 'some', true, " +
			"CASE WHEN n.id % 2 = 0 THEN (SELECT min(seq) FROM backups) END",
		"everything": "claim_everything(1), 'everything', true, (SELECT min(seq) FROM backups)",
	} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			d := newQueue(t, 4, "a")
			enqueue(t, d, request("runs", "a"))
			dispatch(t, d, 1)
			h := &holder{tb: t, conn: connect(t, d.Direct)}
			h.exec(fmt.Sprintf("INSERT INTO namespaces (cluster_id, name, present) SELECT 1, 'n' || g, true FROM generate_series(1, %d) g", backups))
			h.exec(`INSERT INTO backups (id, cluster_id, name, phase, spec, location, created_at, enqueued_at, keep_for, order_key, claim, scope, evaluated, blocked_by, has_pattern, resolved, inventory_version)
				SELECT gen_random_uuid(), 1, 'b' || n.id, 'Queued', '{}', 'default', t.at, t.at, '1h', t.at, ` + waiting + `, false, true, 1
				  FROM namespaces n, LATERAL (SELECT now() - interval '20 seconds' + n.id * interval '1ms' AS at) t WHERE n.name LIKE 'n%'`)
			h.exec("INSERT INTO claims SELECT b.cluster_id, n, 1, b.order_key, b.seq FROM backups b, claim_ids(b.claim) n WHERE phase = 'Queued' AND NOT wide")
			h.exec("INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason) SELECT clock_timestamp(), 1, seq, '', phase, 'Enqueued' FROM backups WHERE phase = 'Queued'")
			h.exec("INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason) SELECT clock_timestamp(), 1, seq, phase, phase, 'RunningOverlap' FROM backups WHERE phase = 'Queued'")
			h.exec("ANALYZE")
			var took []time.Duration
			for range 3 {
				began := time.Now()
				checkAudit(t, h.conn, shape)
				took = append(took, time.Since(began))
			}
			t.Logf("the audit of %d backups, %s, took %v", backups, shape, took)
			if fastest := slices.Min(took); fastest > bound {
				var lines []string
				rows, _ := h.conn.Query(context.Background(), "EXPLAIN ANALYZE SELECT * FROM report.audit")
				lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
				t.Errorf("the audit of %d backups takes %v, %v at most: %v\n%s", backups, fastest, bound, err, strings.Join(lines, "\n"))
			}
		})
	}
}

// The calibration counts who started by the p90 among those whose fate is known.
func TestETACalibration(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 10)
	h := &holder{tb: t, conn: connect(t, d.Direct)}
	for _, name := range []string{"early", "late", "waits", "overdue", "canceled", "retried"} {
		enqueue(t, d, request(name, ""))
	}
	h.exec("BEGIN")
	h.exec("SET LOCAL session_replication_role = replica")
	h.exec("UPDATE backups SET enqueued_at = '2026-03-01 12:00Z'")
	predict := func(name, at, p90 string) {
		h.exec(`INSERT INTO predictions SELECT seq, $2::timestamptz, $3::timestamptz, $3::timestamptz, 'schedule' FROM backups WHERE name = $1`, name, at, p90)
	}
	predict("early", "2026-03-01 23:59Z", "2026-03-02 00:30Z")
	predict("late", "2026-03-02 00:00Z", "2026-03-02 00:30Z")
	predict("waits", "2026-03-02 00:00Z", "9999-01-01 00:00Z")
	predict("overdue", "2026-03-02 00:00Z", "2026-03-02 00:30Z")
	predict("canceled", "2026-03-02 00:00Z", "2026-03-02 00:30Z")
	predict("retried", "2026-03-01 11:00Z", "2026-03-02 00:30Z")
	h.exec("UPDATE backups SET first_ready_at = '2026-03-02 00:30Z' WHERE name IN ('early', 'retried')")
	h.exec("UPDATE backups SET first_ready_at = '2026-03-02 00:31Z' WHERE name = 'late'")
	h.exec("UPDATE backups SET phase = 'Canceled' WHERE name = 'canceled'")
	type row struct {
		Cluster, Day                                    string
		Predictions, Started, StartedBeforeP90, Overdue int
		Share                                           *float64
	}
	got := collect[row](t, h.conn, `
		SELECT cluster, coalesce(day::text, 'all') AS day, predictions, started, started_before_p90, overdue, share FROM report.eta_calibration ORDER BY 2`)
	want := []row{
		{"default", "2026-03-01", 1, 1, 1, 0, new(1.0)},
		{"default", "2026-03-02", 4, 1, 0, 1, new(0.0)},
		{"default", "all", 5, 2, 1, 1, new(1.0 / 3)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report.eta_calibration (-want +got):\n%s", diff)
	}
	h.exec("ROLLBACK")
}
