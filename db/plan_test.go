package db_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/db/dbtest"
)

// plan is a node of what EXPLAIN (FORMAT JSON) says.
type plan struct {
	NodeType  string `json:"Node Type"`
	Relation  string `json:"Relation Name"`
	Index     string `json:"Index Name"`
	Condition string `json:"Index Cond"`
	Filter    string
	Rows      float64 `json:"Actual Rows"`
	Removed   float64 `json:"Rows Removed by Filter"`
	Rechecked float64 `json:"Rows Removed by Index Recheck"`
	Loops     float64 `json:"Actual Loops"`
	Plans     []plan
}

// mostRows is how many rows a statement reads of a table at most; concerned.sql
// looks at 2,048 in one go.
const mostRows = 2100

// The transactions that work on the queue read it by its indexes, whatever plan
// Postgres keeps and whatever it knows of the queue: a scan of all of it makes
// every dequeue wait longer with every backup that waits, and locks the table
// against the dequeues of other clusters.
func TestPlansUseIndexes(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]struct{ evaluated, blockedBy string }{
		"a third waits for one that runs, a third for a place, a third was not looked at": {
			"n.id % 3 < 2", "CASE WHEN n.id % 3 = 0 THEN (SELECT min(seq) FROM backups) END",
		},
		"all wait for one that runs": {"true", "(SELECT min(seq) FROM backups)"},
		"all wait for one of ten":    {"true", "(SELECT min(seq) FROM backups) + n.id % 10"},
		"half waits for one of ten":  {"true", "CASE WHEN n.id % 2 = 0 THEN (SELECT min(seq) FROM backups) + n.id % 10 END"},
		"each waits for another":     {"true", "(SELECT min(seq) FROM backups) + n.id"},
		"all wait for a place":       {"true", "NULL::bigint"},
		"nobody was looked at":       {"false", "NULL::bigint"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkPlans(t, shape.evaluated, shape.blockedBy, nil)
		})
	}
	t.Run("Postgres has just learned what there is", func(t *testing.T) {
		t.Parallel()
		checkPlans(t, "true", "(SELECT min(seq) FROM backups) + n.id % 10", func(d *dbtest.Database) {
			if done, err := d.Analyze(t.Context()); err != nil || !done {
				t.Fatalf("analyzed: %v, %v", done, err)
			}
		})
	})
}

// checkPlans looks at a queue of 10,000, in which that is evaluated and blocked_by.
// Postgres knows it by an ANALYZE of everything, or by learn.
func checkPlans(t *testing.T, evaluated, blockedBy string, learn func(d *dbtest.Database)) {
	ctx := context.Background()
	d := newQueue(t, 60, "a")
	conn := connect(t, d.URL)
	enqueue(t, d, request("runs", "a"))
	run := dispatch(t, d, 1)[0]
	ended := enqueue(t, d, request("ended", "b"))
	if _, err := d.Cancel(ctx, ended.ID, ""); err != nil {
		t.Fatal(err)
	}
	if learn != nil {
		if done, err := d.Analyze(ctx); err != nil || done {
			t.Fatalf("two backups are worth an ANALYZE: %v, %v", done, err)
		}
	}
	for _, sql := range []string{
		"ALTER TABLE backups SET (autovacuum_enabled = false)",
		"ALTER TABLE claims SET (autovacuum_enabled = false)",
		"ALTER TABLE namespaces SET (autovacuum_enabled = false)",
		"INSERT INTO namespaces (cluster_id, name, present) SELECT 1, 'n' || g, true FROM generate_series(1, 10000) g",
		"INSERT INTO namespaces (cluster_id, name) SELECT 1, 'absent' || g FROM generate_series(1, 30000) g",
		`INSERT INTO backups (id, cluster_id, name, phase, spec, location, created_at, enqueued_at, keep_for, order_key, scope, has_pattern, resolved, inventory_version, claim, evaluated, blocked_by)
		 SELECT gen_random_uuid(), 1, 'b' || n.id, 'Queued', '{}', 'default', now(), now() + n.id * interval '1ms', '1h', now() + n.id * interval '1ms', 'some', false, true, 1, claim_some(1, ARRAY[n.id]),
		        ` + evaluated + ", " + blockedBy + `
		   FROM namespaces n WHERE n.name LIKE 'n%'`,
		"INSERT INTO claims SELECT b.cluster_id, n, 1, b.order_key, b.seq FROM backups b, claim_ids(b.claim) n WHERE phase = 'Queued'",
		// Each kind of work that a statement may find: others that are not due and some that are, or whose deadline passed.
		`INSERT INTO backups (id, cluster_id, name, phase, spec, location, created_at, enqueued_at, keep_for, order_key, scope, has_pattern, resolved, inventory_version, claim, not_before, start_deadline)
		 SELECT gen_random_uuid(), 1, 'late' || g, 'New', '{}', 'default', now(), now(), '1h', now(), 'some', false, true, 1, '{}',
		        now() + CASE WHEN g <= 200 THEN interval '-1h' ELSE interval '1h' END, now() + CASE WHEN g % 50 = 0 THEN interval '-1min' ELSE interval '2h' END
		   FROM generate_series(1, 5000) g`,
		// All that ever ran stays in the table.
		"ALTER TABLE backups DISABLE TRIGGER USER",
		`INSERT INTO backups (id, cluster_id, name, phase, spec, location, created_at, enqueued_at, keep_for, order_key, scope, has_pattern, resolved, inventory_version, claim, first_ready_at, started_at, completed_at)
		 SELECT gen_random_uuid(), 1, 'ended' || g, 'Completed', '{}', 'default', at, at, '1h', at, 'some', false, true, 1, '{}', at, at, at
		   FROM generate_series(1, 50000) g, LATERAL (SELECT now() - g * interval '1min' AS at) ran`,
		// Others run.
		`INSERT INTO backups (id, cluster_id, name, phase, spec, location, created_at, enqueued_at, keep_for, order_key, scope, has_pattern, resolved, inventory_version, claim, first_ready_at, ready_at, slot, fence)
		 SELECT gen_random_uuid(), 1, 'runs' || g, 'InProgress', '{}', 'default', now(), now(), '1h', now(), 'some', false, true, 1, '{}', now(), now(), g, nextval('fences')
		   FROM generate_series(11, 20) g`,
		"ALTER TABLE backups ENABLE TRIGGER USER",
		// A pattern that takes in thousands.
		`INSERT INTO backups (id, cluster_id, name, phase, spec, location, created_at, enqueued_at, keep_for, order_key, scope, has_pattern, resolved, inventory_version, claim)
		 SELECT gen_random_uuid(), 1, 'takes many', 'Queued', '{}', 'default', now(), now(), '1h', now() + interval '1h', 'some', true, true, 1, claim_some(1, array_agg(id))
		   FROM namespaces WHERE name LIKE 'n%0' OR name LIKE 'n%1' OR name LIKE 'n%2' OR name LIKE 'n%3' OR name LIKE 'n%4'`,
		"INSERT INTO claims SELECT b.cluster_id, n, 1, b.order_key, b.seq FROM backups b, claim_ids(b.claim) n WHERE name = 'takes many'",
		"INSERT INTO departures (cluster_id, seq) SELECT 1, min(seq) FROM backups",
		"INSERT INTO amendments VALUES (1, '-infinity', 0, '{n7}', '{n7}')",
		"INSERT INTO relooks VALUES (1, '-infinity', 0, true)",
		"INSERT INTO slots SELECT 1, g FROM generate_series(61, 65) g",
		// One that nobody was heard of, for the reaper.
		"UPDATE leases SET expires_at = now() - interval '1h'",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	if learn != nil {
		learn(d)
	} else if _, err := conn.Exec(ctx, "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	seq, fence, queued, queuedToo := fmt.Sprint(run.Seq), fmt.Sprint(run.Fence), fmt.Sprint(run.Seq+2), fmt.Sprint(run.Seq+3)
	var many, goneAndCome, come string
	if err := conn.QueryRow(ctx, `
		SELECT (SELECT seq::text FROM backups WHERE name = 'takes many'), array_agg(id)::text, (max(id) FILTER (WHERE name = 'n9'))::text
		  FROM namespaces WHERE name IN ('n10', 'n11', 'n9')`).Scan(&many, &goneAndCome, &come); err != nil {
		t.Fatal(err)
	}
	// Without the change of the namespaces, which nobody behind it is admitted past.
	const amended = "DELETE FROM amendments"
	// Readers may scan what they read all of.
	const asReader = "SET LOCAL enable_seqscan = on"
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		h := &holder{tb: t, conn: connect(t, d.Direct)}
		h.exec("SET plan_cache_mode = " + mode)
		for i, of := range []struct {
			statement, before string
			args              pgx.NamedArgs
		}{
			{"look", "", pgx.NamedArgs{"cluster_id": "1", "want": "1"}},
			{"look", amended + "; UPDATE backups SET not_before = now() + interval '1h', start_deadline = now() + interval '2h' WHERE phase = 'New' AND not_before < now()", pgx.NamedArgs{"cluster_id": "1", "want": "0"}},
			{"dispatch", amended, pgx.NamedArgs{"cluster_id": "1", "want": "2", "worker": "w", "lease_ttl": "1min"}},
			{"dispatch", amended, pgx.NamedArgs{"cluster_id": "1", "want": "0", "worker": "w", "lease_ttl": "1min"}},
			{"dispatch", "", pgx.NamedArgs{"cluster_id": "1", "want": "2", "worker": "w", "lease_ttl": "1min"}},
			{"leave", "", pgx.NamedArgs{"seq": seq, "fence": fence, "from": "{ReadyToStart}", "phase": "Failed", "reason": "", "message": "",
				"warnings": "0", "errors": "0", "validation_errors": "{}", "failure_reason": ""}},
			{"release", "", pgx.NamedArgs{"seq": seq, "fence": fence, "message": ""}},
			{"any_departure", "", pgx.NamedArgs{"cluster_id": "1"}},
			{"release_watchers", "", pgx.NamedArgs{"cluster_id": "1"}},
			{"reap", "", pgx.NamedArgs{"cluster_id": "1", "grace": "1min", "backoff": "30s", "max_backoff": "10min", "reason": "", "message": "", "seq": "0", "fence": "0"}},
			{"reap", "", pgx.NamedArgs{"cluster_id": "1", "grace": "1min", "backoff": "30s", "max_backoff": "10min", "reason": "", "message": "", "seq": seq, "fence": fence}},
			{"note_conditions", "UPDATE clusters SET has_worker = false", pgx.NamedArgs{"cluster_id": "1"}},
			{"overdue", "", pgx.NamedArgs{"cluster_id": "1"}},
			{"fall_due", "", pgx.NamedArgs{"cluster_id": "1"}},
			{"give_up", "", pgx.NamedArgs{"seqs": "{" + queued + "," + queuedToo + "}", "phase": "Canceled", "reason": "", "message": "", "failure_reason": ""}},
			{"edit", "", pgx.NamedArgs{"seq": queued, "message": "", "priority": "1", "edits_not_before": "f", "not_before": "2026-01-01Z",
				"edits_start_deadline": "f", "start_deadline": "2026-01-01Z"}},
			{"retry", "", pgx.NamedArgs{"seq": fmt.Sprint(run.Seq + 1), "message": "", "inventory_version": "1", "resolved": "t", "namespace_ids": "{1}", "left_out": "{}"}},
			{"complete_contents", "", pgx.NamedArgs{"seq": seq, "fence": fence, "present": "{n1}", "excluded": "{n2}"}},
			{"request_cancel", "", pgx.NamedArgs{"seq": seq, "message": ""}},
			{"count_waiting", "", pgx.NamedArgs{"cluster_id": "1", "cap": "100"}},
			{"reclaim", "", pgx.NamedArgs{"cluster_id": "1", "inventory_version": "1", "touched": "{1,2}",
				"claims": fmt.Sprintf(`[{"seq": %s, "resolved": true, "namespace_ids": [1], "left_out": []}, {"seq": %s, "resolved": true, "namespace_ids": [], "left_out": [2]}]`, queued, queuedToo)}},
			{"reclaim", "", pgx.NamedArgs{"cluster_id": "1", "inventory_version": "1", "touched": goneAndCome,
				"claims": fmt.Sprintf(`[{"seq": %s, "resolved": true, "namespace_ids": [%s], "left_out": []}]`, many, come)}},
			{"begin_amendment", "", pgx.NamedArgs{"cluster_id": "1", "names": "{n8}", "relabelled": "{}"}},
			{"concerned", "", pgx.NamedArgs{"cluster_id": "1", "budget": "64"}},
			{"move_amendment", "", pgx.NamedArgs{"cluster_id": "1", "up_to": queued}},
			{"known_namespaces", "", pgx.NamedArgs{"cluster_id": "1", "everyone": "t", "names": "{n1,n2}"}},
			{"name_namespaces", "", pgx.NamedArgs{"cluster_id": "1", "names": "{n1,n2}"}},
			{"change_inventory", "", pgx.NamedArgs{"cluster_id": "1", "names": "{n1,n2}", "present": "{t,f}", "excluded": "{f,f}"}},
			{"bump_inventory", "", pgx.NamedArgs{"cluster_id": "1", "complete": "t", "message": ""}},
			{"change_settings", "", pgx.NamedArgs{"cluster_id": "1", "if_version": "1", "concurrent_backups": "8", "item_block_worker_count": "2", "edits_max_queued": "t", "max_queued": "9"}},
			{"close_slots", "", pgx.NamedArgs{"cluster_id": "1", "most": "256"}},
			{"pause", "", pgx.NamedArgs{"cluster_id": "1", "until": "2030-01-01Z", "reason": "", "by": ""}},
			{"resume", "UPDATE clusters SET paused_since = now()", pgx.NamedArgs{"cluster_id": "1", "by": ""}},
			{"remark", "", pgx.NamedArgs{"cluster_id": "1"}},
			{"progress", "", pgx.NamedArgs{"seq": seq, "fence": fence, "items": "1", "total": "1", "bytes": "1"}},
			{"start", "", pgx.NamedArgs{"seq": seq, "fence": fence}},
			// Pages of the queue, which are read without the gate.
			{"waiting", asReader, pgx.NamedArgs{"cluster_id": "1", "later": "f", "place": "-infinity", "seq": "0", "limit": "100"}},
			{"running", asReader, pgx.NamedArgs{"cluster_id": "1"}},
			{"mirrors", asReader, pgx.NamedArgs{"cluster_id": "1", "limit": "100"}},
		} {
			sql, values, err := of.args.RewriteQuery(ctx, h.conn, db.Statements()[of.statement], nil)
			if err != nil {
				t.Fatal(err)
			}
			prepared := fmt.Sprintf("%s_%d", of.statement, i)
			h.exec("PREPARE " + prepared + " AS " + sql)
			var literals []string
			for _, value := range values {
				literals = append(literals, fmt.Sprintf("'%s'", value))
			}
			var text []byte
			h.exec(db.BeginSerializable)
			if of.before != "" {
				h.exec(of.before)
			}
			execute := fmt.Sprintf("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE %s(%s)", prepared, strings.Join(literals, ", "))
			if err := h.conn.QueryRow(ctx, execute).Scan(&text); err != nil {
				t.Fatalf("%s: %v", of.statement, err)
			}
			h.exec("ROLLBACK")
			var plans []struct{ Plan plan }
			if err := json.Unmarshal(text, &plans); err != nil {
				t.Fatal(err)
			}
			for _, p := range plans {
				p.Plan.check(t, fmt.Sprintf("%s %v by %s", of.statement, of.args["want"], mode))
			}
		}
	}
}

func (p plan) check(t *testing.T, of string) {
	all := p.NodeType == "Seq Scan" || strings.HasPrefix(p.NodeType, "Index")
	if all && slices.Contains([]string{"backups", "claims", "namespaces"}, p.Relation) && p.Condition == "" || p.NodeType == "Bitmap Index Scan" && p.Condition == "" {
		t.Errorf("%s reads all of %s %s for %q", of, p.Relation, p.Index, p.Filter)
	}
	if read := (p.Rows + p.Removed + p.Rechecked) * p.Loops; read > mostRows && slices.Contains([]string{"backups", "claims"}, p.Relation) {
		t.Errorf("%s reads %v rows of %s %s for %q", of, read, p.Relation, p.Index, p.Filter)
	}
	// Those that a cluster's silence keeps are not walked to find the others.
	if p.Index == "backups_known" && !strings.Contains(p.Condition, "needs_inventory") {
		t.Errorf("%s reads %s by %q", of, p.Index, p.Condition)
	}
	// Names that only backups have mentioned are not read, however many there are.
	if p.Index == "namespaces_cluster_id_name_key" && !strings.Contains(p.Condition, "(name =") {
		t.Errorf("%s reads the cluster's absent namespaces by %q", of, p.Condition)
	}
	for _, child := range p.Plans {
		child.check(t, of)
	}
}
