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
			checkPlans(t, shape.evaluated, shape.blockedBy)
		})
	}
}

// checkPlans looks at a queue of 10,000, in which that is evaluated and blocked_by.
func checkPlans(t *testing.T, evaluated, blockedBy string) {
	ctx := context.Background()
	d := newQueue(t, 4, "a")
	conn := connect(t, d.URL)
	enqueue(t, d, request("runs", "a"))
	run := dispatch(t, d, 1)[0]
	for _, sql := range []string{
		"INSERT INTO namespaces (cluster_id, name, present) SELECT 1, 'n' || g, true FROM generate_series(1, 10000) g",
		"INSERT INTO namespaces (cluster_id, name) SELECT 1, 'absent' || g FROM generate_series(1, 30000) g",
		`INSERT INTO backups (id, cluster_id, name, phase, spec, location, created_at, enqueued_at, keep_for, order_key, scope, has_pattern, resolved, inventory_version, claim, evaluated, blocked_by)
		 SELECT gen_random_uuid(), 1, 'b' || n.id, 'Queued', '{}', 'default', now(), now() + n.id * interval '1ms', '1h', now() + n.id * interval '1ms', 'some', false, true, 1, claim_some(1, ARRAY[n.id]),
		        ` + evaluated + ", " + blockedBy + `
		   FROM namespaces n WHERE n.name LIKE 'n%'`,
		"INSERT INTO claims SELECT b.cluster_id, n, 1, b.order_key, b.seq FROM backups b, claim_ids(b.claim) n WHERE phase = 'Queued'",
		// One that nobody was heard of, for the reaper.
		"UPDATE leases SET expires_at = now() - interval '1h'",
		"ANALYZE",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	seq, fence, queued := fmt.Sprint(run.Seq), fmt.Sprint(run.Fence), fmt.Sprint(run.Seq+1)
	statements := map[string]pgx.NamedArgs{
		"look":     {"cluster_id": "1", "want": "1"},
		"dispatch": {"cluster_id": "1", "want": "2", "worker": "w", "lease_ttl": "1min"},
		"leave": {"seq": seq, "fence": fence, "from": "{ReadyToStart}", "phase": "Failed", "reason": "", "message": "",
			"warnings": "0", "errors": "0", "validation_errors": "{}", "failure_reason": ""},
		"release":          {"seq": seq, "fence": fence, "message": ""},
		"release_watchers": {"cluster_id": "1"},
		"reap":             {"cluster_id": "1", "grace": "1min", "backoff": "30s", "max_backoff": "10min"},
		"note_conditions":  {"cluster_id": "1"},
		"overdue":          {"cluster_id": "1"},
		"fall_due":         {"cluster_id": "1"},
		"give_up":          {"seqs": "{2,3,4}", "phase": "Canceled", "reason": "", "message": "", "failure_reason": ""},
		"edit": {"seq": queued, "message": "", "priority": "1", "edits_not_before": "f", "not_before": "2026-01-01Z",
			"edits_start_deadline": "f", "start_deadline": "2026-01-01Z"},
		"retry":            {"seq": seq, "message": "", "inventory_version": "1", "resolved": "t", "namespace_ids": "{1}", "left_out": "{}"},
		"request_cancel":   {"seq": seq, "message": ""},
		"count_waiting":    {"cluster_id": "1", "cap": "100"},
		"reclaim":          {"inventory_version": "1", "claims": `[{"seq": 1, "resolved": true, "namespace_ids": [1], "left_out": []}]`},
		"concerned":        {"cluster_id": "1", "budget": "64"},
		"known_namespaces": {"cluster_id": "1", "everyone": "t", "names": "{n1,n2}"},
		"name_namespaces":  {"cluster_id": "1", "names": "{n1,n2}"},
		"change_inventory": {"cluster_id": "1", "names": "{n1,n2}", "present": "{t,f}", "excluded": "{f,f}"},
		"progress":         {"seq": seq, "fence": fence, "items": "1", "total": "1", "bytes": "1"},
		"start":            {"seq": seq, "fence": fence},
	}
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		h := &holder{tb: t, conn: connect(t, d.Direct)}
		h.exec("SET plan_cache_mode = " + mode)
		for name, args := range statements {
			sql, values, err := args.RewriteQuery(ctx, h.conn, db.Statements()[name], nil)
			if err != nil {
				t.Fatal(err)
			}
			h.exec("PREPARE " + name + " AS " + sql)
			var literals []string
			for _, value := range values {
				literals = append(literals, fmt.Sprintf("'%s'", value))
			}
			var text []byte
			h.exec(db.BeginSerializable)
			execute := fmt.Sprintf("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE %s(%s)", name, strings.Join(literals, ", "))
			if err := h.conn.QueryRow(ctx, execute).Scan(&text); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			h.exec("ROLLBACK")
			var plans []struct{ Plan plan }
			if err := json.Unmarshal(text, &plans); err != nil {
				t.Fatal(err)
			}
			for _, p := range plans {
				p.Plan.check(t, name+" by "+mode)
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
