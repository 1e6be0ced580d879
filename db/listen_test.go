package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/db/dbtest"
)

// listen listens to the queue until the test ends, or fails, and ticks at each hint.
func listen(t *testing.T, s *db.Store) (hints <-chan struct{}, ended func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ticks := make(chan struct{}, 100)
	ended = during(func() error {
		return s.Listen(ctx, []string{db.ChannelQueue, db.ChannelMirror}, func() { ticks <- struct{}{} })
	})
	t.Cleanup(cancel)
	return ticks, ended
}

func awaitHint(t *testing.T, hints <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-hints:
	case <-time.After(time.Minute):
		t.Fatalf("no hint %s", what)
	}
}

// Who listens hears of each enqueue, and of the listener's own probe nobody does.
func TestListen(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a")
	s := openStore(t, d.Direct, 2)
	hints, ended := listen(t, s)
	awaitHint(t, hints, "of what happened before")
	conn := connect(t, d.Direct)
	// It hears, and has forgotten the probe.
	for last := ""; last == ""; {
		for _, query := range collect[struct{ Query string }](t, conn, "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'unlisten berth_probe_%'") {
			last = query.Query
		}
	}
	select {
	case <-hints:
		t.Error("the probe is a hint")
	default:
	}
	enqueue(t, d, request("b", "a"))
	awaitHint(t, hints, "of the enqueue")
	if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'unlisten berth_probe_%'"); err != nil {
		t.Fatal(err)
	}
	if err := ended(); err == nil || errors.Is(err, berth.ErrNoNotifications) {
		t.Errorf("when its connection breaks: %v", err)
	}
}

// Through a pooler that shares connections by the transaction nobody hears
// anything: that is found out, and nothing is left on the server's connections,
// which others use.
func TestListenThroughAPooler(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a")
	pooled := dbtest.Pooled(t, d.Direct)
	s := openStore(t, pooled, 4)
	hints, ended := listen(t, s)
	awaitHint(t, hints, "of what happened before")
	if err := ended(); !errors.Is(err, berth.ErrNoNotifications) {
		t.Fatalf("listen: %v, want %v", err, berth.ErrNoNotifications)
	}
	conn := connect(t, pooled)
	seen := map[int]bool{}
	for range 30 {
		type session struct {
			Backend  int
			Channels []string
		}
		found := collect[session](t, conn, "SELECT pg_backend_pid() AS backend, array(SELECT pg_listening_channels()) AS channels")[0]
		if diff := cmp.Diff([]string{}, found.Channels); diff != "" {
			t.Fatalf("connection %d of the server still listens (-want +got):\n%s", found.Backend, diff)
		}
		seen[found.Backend] = true
	}
	if len(seen) < 2 {
		t.Errorf("looked at %d of the server's connections", len(seen))
	}
}
