package db_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// eventless has a database refuse, when it commits, what changes a backup's phase or
// a cluster without the event that tells of it.
const eventless = `
CREATE FUNCTION check_transition() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NOT EXISTS (SELECT FROM events e WHERE e.seq = NEW.seq AND e.at >= transaction_timestamp()
                      AND e.from_phase = CASE TG_OP WHEN 'UPDATE' THEN OLD.phase ELSE '' END AND e.to_phase = NEW.phase) THEN
        RAISE 'no event tells that % became %', NEW.name, NEW.phase;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER moved AFTER UPDATE ON backups DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.phase <> NEW.phase) EXECUTE FUNCTION check_transition();
CREATE CONSTRAINT TRIGGER came AFTER INSERT ON backups DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION check_transition();
CREATE FUNCTION check_cluster() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NOT EXISTS (SELECT FROM events e WHERE e.cluster_id = NEW.id AND e.seq IS NULL AND e.at >= transaction_timestamp()) THEN
        RAISE 'no event tells that cluster % changed', NEW.name;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER changed AFTER UPDATE ON clusters DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((OLD.settings_version, OLD.inventory_version, OLD.has_worker, OLD.reachable)
                    IS DISTINCT FROM (NEW.settings_version, NEW.inventory_version, NEW.has_worker, NEW.reachable))
    EXECUTE FUNCTION check_cluster();`

func refuseWhatHasNoEvent(tb testing.TB, conn *pgx.Conn) {
	tb.Helper()
	if _, err := conn.Exec(tb.Context(), eventless); err != nil {
		tb.Fatal(err)
	}
}

// A backup that moves, or a cluster that changes, without an event is refused where
// the state machine of random histories runs.
func TestWhatHasNoEventIsRefused(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a")
	conn := connect(t, d.Direct)
	refuseWhatHasNoEvent(t, conn)
	enqueue(t, d, request("told", "a"))
	for change, want := range map[string]string{
		"UPDATE backups SET phase = 'Canceled', completed_at = now()": "told became Canceled",
		"UPDATE clusters SET settings_version = settings_version + 1": "cluster default changed",
		"UPDATE clusters SET has_worker = NOT has_worker":             "cluster default changed",
	} {
		_, err := conn.Exec(t.Context(), change)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
	if _, err := d.Pause(t.Context(), berth.DefaultCluster, berth.PauseRequest{}); err != nil {
		t.Errorf("what has its event: %v", err)
	}
}
