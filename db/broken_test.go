package db_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
)

// Where connections break in the middle of everything, each request is answered
// and is in the queue once: nobody has to ask again, and who does finds no second.
func TestEnqueueWhileConnectionsBreak(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)
	const askers, requests = 4, 20
	// A request that loses five connections in a row is answered with an error, so
	// that each loses two at most; the second may be found broken by the next one.
	const perRequest = 2
	killer := connect(t, d.Direct)
	ended := make(chan struct{})
	var asking [askers]atomic.Int64
	var all sync.WaitGroup
	for asker := range askers {
		store, err := db.Open(ctx, named(t, d.URL, asker))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		all.Go(func() {
			for i := range requests {
				asking[asker].Store(int64(i))
				label := fmt.Sprintf("%d-%d", asker, i)
				b, err := store.Enqueue(ctx, berth.Request{Labels: map[string]string{"asked": label}, Spec: spec([]string{"a"}, nil)})
				if err != nil || b.Labels["asked"] != label {
					t.Errorf("%s: %s %v, %v", label, b.Name, b.Labels, err)
				}
			}
		})
	}
	go func() {
		all.Wait()
		close(ended)
	}()
	kills, broken := 0, map[[2]int64]int{}
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(5 * time.Millisecond):
			for asker := range askers {
				request := [2]int64{int64(asker), asking[asker].Load()}
				if broken[request] == perRequest {
					continue
				}
				tag, err := killer.Exec(ctx, `
					SELECT pg_terminate_backend(pid) FROM pg_stat_activity
					 WHERE datname = current_database() AND application_name = 'asker-' || $1::int AND state <> 'idle' AND query ~ 'INSERT INTO backups|backup_rows|^commit'`, asker)
				if err != nil {
					t.Fatal(err)
				}
				if tag.RowsAffected() > 0 {
					broken[request]++
					kills++
				}
			}
		}
	}
	type twice struct {
		Label string
		Found int
	}
	rows := collect[twice](t, killer, "SELECT labels ->> 'asked' AS label, count(*) AS found FROM backups GROUP BY 1 HAVING count(*) > 1")
	var stored int
	if err := killer.QueryRow(ctx, "SELECT count(*) FROM backups").Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if len(rows) > 0 || stored != askers*requests || kills == 0 {
		t.Errorf("after %d broken connections %d of %d requests are there, these more than once: %v", kills, stored, askers*requests, rows)
	}
	t.Logf("%d broken connections", kills)
}

// Where the answer to a commit is lost nobody knows whether it happened: who asks
// again gets what a first answer would have said, and it happened once.
func TestTheAnswerToACommitIsLost(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, ask := range map[string]func(s *db.Store, waiting berth.Backup) error{
		"Enqueue": func(s *db.Store, _ berth.Backup) error {
			b, err := s.Enqueue(ctx, request("new", "a"))
			if e, is := errors.AsType[*berth.Error](err); is && e.Code == berth.CodeNameTaken && e.ExistingID != "" {
				return nil // it is told which it is
			}
			if err == nil && b.Phase != berth.PhaseQueued {
				t.Errorf("the new one is %s", b.Phase)
			}
			return err
		},
		"Cancel": func(s *db.Store, waiting berth.Backup) error {
			b, err := s.Cancel(ctx, waiting.ID, "somebody")
			if err == nil && b.Phase != berth.PhaseCanceled {
				t.Errorf("the canceled one is %s", b.Phase)
			}
			return err
		},
		"Edit": func(s *db.Store, waiting berth.Backup) error {
			b, err := s.Edit(ctx, waiting.ID, berth.Edit{Priority: new(7)})
			if err == nil && b.Priority != 7 {
				t.Errorf("the edited one has priority %d", b.Priority)
			}
			return err
		},
		"Pause": func(s *db.Store, _ berth.Backup) error {
			_, err := s.Pause(ctx, berth.DefaultCluster, berth.PauseRequest{Reason: "a test"})
			return err
		},
		"ChangeSettings": func(s *db.Store, _ berth.Backup) error {
			_, err := s.ChangeSettings(ctx, berth.DefaultCluster, berth.SettingsChange{MaxQueued: new(7)})
			return err
		},
		"ChangeNamespaces": func(s *db.Store, _ berth.Backup) error {
			return s.ChangeNamespaces(ctx, berth.DefaultCluster, []berth.Namespace{present("new")})
		},
		"Remark": func(s *db.Store, _ berth.Backup) error { return s.Remark(ctx, berth.DefaultCluster) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newQueue(t, 1, "a")
			waiting := enqueue(t, d, request("waiting", "a"))
			conn := connect(t, d.Direct)
			told := func() (n int) {
				if err := conn.QueryRow(ctx, "SELECT count(*) FROM events").Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			p := startProxy(t, d.Direct)
			s := openStore(t, p.url, 2)
			p.loses.Store(true)
			first := ask(s, waiting)
			if p.loses.Load() {
				t.Fatal("no answer was lost")
			}
			happened := told()
			if err := ask(s, waiting); err != nil || first != nil && berth.CodeOf(first) != berth.CodeNotReady {
				t.Errorf("asked for the first time: %v; again: %v", first, err)
			}
			if again := told(); again != happened {
				t.Errorf("%d events, and %d when asked again", happened, again)
			}
			checkAudit(t, conn, name)
		})
	}
}

// named gives the URL under which an asker's connections can be told from others'.
func named(tb testing.TB, databaseURL string, asker int) string {
	tb.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	q := u.Query()
	q.Set("application_name", fmt.Sprintf("asker-%d", asker))
	u.RawQuery = q.Encode()
	return u.String()
}

// A full queue does not hide that a request was taken before.
func TestNameTakenBeforeQueueFull(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)
	if _, err := d.ChangeSettings(ctx, berth.DefaultCluster, berth.SettingsChange{MaxQueued: new(1)}); err != nil {
		t.Fatal(err)
	}
	first := enqueue(t, d, request("first", "a"))
	_, err := d.Enqueue(ctx, request("first", "a"))
	if e, _ := err.(*berth.Error); e == nil || e.Code != berth.CodeNameTaken || e.ExistingID != first.ID.String() {
		t.Errorf("asked again: %v", err)
	}
	if _, err := d.Enqueue(ctx, request("second", "a")); berth.CodeOf(err) != berth.CodeQueueFull {
		t.Errorf("another one: %v", err)
	}
}

// No transaction of the store has its statements compiled, however costly they look.
func TestNothingIsCompiled(t *testing.T) {
	t.Parallel()
	conn := connect(t, newQueue(t, 1).Direct)
	for _, begin := range db.Begins {
		h := &holder{tb: t, conn: conn}
		h.exec("SET jit = on")
		h.exec(begin)
		var jit string
		if err := conn.QueryRow(context.Background(), "SHOW jit").Scan(&jit); err != nil || jit != "off" {
			t.Errorf("%s: jit is %q, %v", begin, jit, err)
		}
		h.exec("ROLLBACK")
	}
}
