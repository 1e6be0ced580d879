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

// Notifications take one lock of the whole server at commit: what a running backup
// writes all the time sends none, and who enters or leaves the queue sends one, of a
// few bytes, however many enter at once.
func TestOnlyTheQueueNotifies(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := newQueue(t, 2, "a")
	listener := connect(t, d.Direct)
	if _, err := listener.Exec(ctx, "LISTEN "+db.ChannelQueue+"; LISTEN "+db.ChannelMirror+"; LISTEN done"); err != nil {
		t.Fatal(err)
	}
	// heard are the hints to the queue while something was done.
	heard := func(what string, do func() error) (n int) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := listener.Exec(ctx, "NOTIFY done"); err != nil {
			t.Fatal(err)
		}
		for {
			note, err := listener.WaitForNotification(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if note.Channel == "done" {
				return n
			}
			if len(note.Payload) > 10 {
				t.Errorf("%s: %q", what, note.Payload)
			}
			n++
		}
	}
	var run berth.Run
	for _, step := range []struct {
		what string
		want int
		do   func() error
	}{
		{"100 are enqueued", 1, func() error {
			requests := []berth.Request{request("first", "a")}
			for i := range 99 {
				requests = append(requests, request(nth("b", i), "b"))
			}
			_, err := d.EnqueueMany(ctx, berth.DefaultCluster, requests)
			return err
		}},
		{"it starts, for the mirror", 1, func() error {
			run = dispatch(t, d, 1)[0]
			return d.Start(ctx, run)
		}},
		{"1,000 reports and heartbeats", 0, func() error {
			for i := range 500 {
				if err := d.Progress(ctx, run, berth.Progress{ItemsBackedUp: i, TotalItems: 500}); err != nil {
					return err
				}
				if _, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour, Held: []berth.Run{run}}); err != nil {
					return err
				}
			}
			return nil
		}},
		{"it ends", 1, func() error {
			return d.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"})
		}},
	} {
		if n := heard(step.what, step.do); n != step.want {
			t.Errorf("%s: %d notifications, want %d", step.what, n, step.want)
		}
	}
}
