package db_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/berth-backup/berth"
)

// The database's last line of defence: what it refuses whoever writes.

// refusal is how the database refused a statement: the SQLSTATE and, of a
// constraint, its name; "" where it did not.
func refusal(err error) string {
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err.Error()
	}
	if e.ConstraintName == "" {
		return e.Code
	}
	return e.Code + " " + e.ConstraintName
}

// try runs a statement and takes it back.
func (h *holder) try(sql string, args ...any) string {
	h.tb.Helper()
	h.exec("savepoint tried")
	_, err := h.conn.Exec(context.Background(), sql, args...)
	h.exec("rollback to savepoint tried")
	return refusal(err)
}

const notDrawn, notSerializable = "BE001", "BE002"

// The trigger allows exactly the transitions that phase.go draws.
func TestGuardAllowsDrawnTransitions(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 20)
	h := &holder{tb: t, conn: connect(t, d.URL)}
	h.exec("begin isolation level serializable")
	const insert = `
		INSERT INTO backups (id, cluster_id, name, phase, spec, location, created_at, keep_for, order_key, scope, has_pattern, resolved, inventory_version, claim, slot)
		VALUES (gen_random_uuid(), 1, $1, $2, '{}', 'default', now(), '1h', now(), 'none', false, true, 1, '{}', $3)`
	// Running phases have a slot, each its own.
	slots := map[berth.Phase]*int{}
	for i, phase := range berth.Phases() {
		if phase.Running() {
			slots[phase] = new(i + 1)
		}
	}
	drawn := func(from, to berth.Phase) string {
		if from.CanBecome(to) {
			return ""
		}
		return notDrawn
	}
	for _, to := range berth.Phases() {
		if diff := cmp.Diff(drawn("", to), h.try(insert, "new", to, slots[to])); diff != "" {
			t.Errorf("a new row as %s (-want +got):\n%s", to, diff)
		}
	}
	h.exec("ALTER TABLE backups DISABLE TRIGGER backups_guard_insert")
	for _, from := range berth.Phases() {
		h.exec("savepoint planted")
		h.exec(insert, "planted", from, slots[from])
		for _, to := range berth.Phases() {
			// A phase that stays as it is is no transition.
			if from == to {
				continue
			}
			got := h.try("UPDATE backups SET phase = $1, slot = $2 WHERE name = 'planted'", to, slots[to])
			if diff := cmp.Diff(drawn(from, to), got); diff != "" {
				t.Errorf("%s to %s (-want +got):\n%s", from, to, diff)
			}
		}
		h.exec("rollback to savepoint planted")
	}
	if got := h.try(insert, "planted", "Nonsense", nil); got != "23514 backups_phase" {
		t.Errorf("a phase that is none: %q", got)
	}
}

// An admission needs SERIALIZABLE: below it two could each miss the other's.
func TestGuardRefusesAdmissionBelowSerializable(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1)
	enqueue(t, d, request("b", "a"))
	for level, want := range map[string]string{"read committed": notSerializable, "repeatable read": notSerializable, "serializable": ""} {
		h := &holder{tb: t, conn: connect(t, d.URL)}
		h.exec("begin isolation level " + level)
		if diff := cmp.Diff(want, h.try("UPDATE backups SET phase = 'ReadyToStart', slot = 1")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", level, diff)
		}
		h.exec("rollback")
	}
}

// Each constraint refuses the row that it is there for, and nothing else.
func TestConstraints(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 3, "a", "b", "c")
	if err := d.AddCluster(ctx, "other"); err != nil {
		t.Fatal(err)
	}
	const (
		overlap  = "23P01 backups_running_disjoint"
		slotHeld = "23505 backups_slot"
		noSlot   = "23503 backups_slot_exists"
	)
	// The claims of namespaces 1 and 2 of cluster 1, and wider ones.
	const (
		one           = "claim_some(1, '{1}')"
		two           = "claim_some(1, '{2}')"
		everything    = "claim_everything(1)"
		butOne        = "claim_everything(1) - claim_some(1, '{1}')"
		butTwo        = "claim_everything(1) - claim_some(1, '{2}')"
		none          = "'{}'"
		otherCluster  = "claim_everything(2)"
		otherFirst    = "claim_some(2, '{1}')"
		wholeLine     = "'{(,)}'"
		firstOfOthers = "claim_some(2, '{0}')"
	)
	type row struct {
		cluster int
		slot    string
		claim   string
	}
	tests := map[string]struct {
		first, second row
		want          string
	}{
		"the same namespace":                        {row{1, "1", one}, row{1, "2", one}, overlap},
		"two namespaces":                            {row{1, "1", one}, row{1, "2", two}, ""},
		"everything beside one":                     {row{1, "1", one}, row{1, "2", everything}, overlap},
		"one beside everything":                     {row{1, "1", everything}, row{1, "2", one}, overlap},
		"everything twice":                          {row{1, "1", everything}, row{1, "2", everything}, overlap},
		"one in the hole of an everything-but":      {row{1, "1", butOne}, row{1, "2", one}, ""},
		"one beside the hole of an everything-but":  {row{1, "1", butOne}, row{1, "2", two}, overlap},
		"two everything-but":                        {row{1, "1", butOne}, row{1, "2", butTwo}, overlap},
		"no namespace beside everything":            {row{1, "1", everything}, row{1, "2", none}, ""},
		"no namespace twice":                        {row{1, "1", none}, row{1, "2", none}, ""},
		"everything of two clusters":                {row{1, "1", everything}, row{2, "1", otherCluster}, ""},
		"the same number of a namespace, elsewhere": {row{1, "1", one}, row{2, "1", otherFirst}, ""},
		"a claim of another cluster":                {row{1, "1", none}, row{1, "2", otherFirst}, "23514 backups_claim_in_cluster"},
		"a claim that begins another cluster":       {row{1, "1", none}, row{1, "2", firstOfOthers}, "23514 backups_claim_in_cluster"},
		"a claim of all clusters":                   {row{1, "1", none}, row{1, "2", wholeLine}, "23514 backups_claim_in_cluster"},
		"a slot that is held":                       {row{1, "1", one}, row{1, "1", two}, slotHeld},
		"a slot above the limit":                    {row{1, "1", one}, row{1, "4", two}, noSlot},
		"a slot that only another cluster has":      {row{1, "1", one}, row{2, "2", otherFirst}, noSlot},
		"running without a slot":                    {row{1, "1", one}, row{1, "NULL", two}, "23514 backups_slot_while_running"},
	}
	const insert = `
		INSERT INTO backups (id, cluster_id, name, phase, spec, location, created_at, keep_for, order_key, scope, has_pattern, resolved, inventory_version, claim)
		VALUES (gen_random_uuid(), %d, '%s', 'Queued', '{}', 'default', now(), '1h', now(), 'none', false, true, 1, %s)`
	const admit = "UPDATE backups SET phase = 'ReadyToStart', slot = %s, claim = %s WHERE name = '%s'"
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := &holder{tb: t, conn: connect(t, d.URL)}
			h.exec("begin isolation level serializable")
			h.exec(fmt.Sprintf(insert, test.first.cluster, "first", none))
			h.exec(fmt.Sprintf(insert, test.second.cluster, "second", none))
			h.exec(fmt.Sprintf(admit, test.first.slot, test.first.claim, "first"))
			got := h.try(fmt.Sprintf(admit, test.second.slot, test.second.claim, "second"))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			h.exec("rollback")
		})
	}

	h := hold(t, d.URL)
	h.exec(fmt.Sprintf(insert, 1, "queued", one))
	for sql, want := range map[string]string{
		"UPDATE backups SET slot = 1":                                                                 "23514 backups_slot_while_running",
		"UPDATE backups SET phase = 'Canceled', blocked_by = 1":                                       "23514 backups_witness_while_queued",
		"UPDATE backups SET attempt = 0":                                                              "23514 backups_attempt_check",
		fmt.Sprintf(insert, 1, "queued", two):                                                         "23505 backups_cluster_id_name_key",
		fmt.Sprintf(insert, 2, "queued", otherFirst):                                                  "",
		"UPDATE clusters SET concurrent_backups = 0":                                                  "23514 clusters_concurrent_backups_check",
		"INSERT INTO slots VALUES (1, 0)":                                                             "23514 slots_slot_check",
		"INSERT INTO claims SELECT 1, 1, 2, order_key, seq FROM backups":                              "23514 claims_rank_check",
		"INSERT INTO claims SELECT 1, 99, 1, order_key, seq FROM backups":                             "23503 claims_namespace_id_fkey",
		"INSERT INTO clusters (id, name) OVERRIDING SYSTEM VALUE VALUES (2147483647, 'too far')":      "23514 clusters_id_check",
		"INSERT INTO clusters (id, name) OVERRIDING SYSTEM VALUE VALUES (2147483646, 'the last one')": "",
		"SELECT claim_everything(2147483646)":                                                         "",
		"INSERT INTO storage_locations VALUES (2, 'another', 'file:///data')":                         "23505 storage_locations_url_prefix_key",
	} {
		if diff := cmp.Diff(want, h.try(sql)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sql, diff)
		}
	}
}

// A slot cannot go while a running backup holds it.
func TestHeldSlotStays(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 2)
	enqueue(t, d, request("b", "a"))
	dispatch(t, d, 1)
	h := hold(t, d.URL)
	if diff := cmp.Diff("23503 backups_slot_exists", h.try("DELETE FROM slots WHERE slot = 1")); diff != "" {
		t.Errorf("a held slot (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("", h.try("DELETE FROM slots WHERE slot = 2")); diff != "" {
		t.Errorf("a free slot (-want +got):\n%s", diff)
	}
}
