package db_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
)

// Where connections break in the middle of everything, each request is answered
// and is in the queue once: nobody has to ask again, and who does finds no second.
func TestEnqueueWhileConnectionsBreak(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)
	const workers, requests = 4, 60
	killer := connect(t, d.Direct)
	ended := make(chan struct{})
	var answered atomic.Int64
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := range requests {
				label := fmt.Sprintf("%d-%d", worker, i)
				b, err := d.Enqueue(ctx, berth.Request{Labels: map[string]string{"asked": label}, Spec: spec([]string{"a"}, nil)})
				if err != nil || b.Labels["asked"] != label {
					t.Errorf("%s: %s %v, %v", label, b.Name, b.Labels, err)
				}
				answered.Add(1)
			}
		})
	}
	go func() {
		all.Wait()
		close(ended)
	}()
	// One connection in the midst of a request for every few answers: none of the
	// requests is broken off without end.
	kills, next := 0, int64(0)
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(5 * time.Millisecond):
			if answered.Load() < next {
				continue
			}
			rows, err := killer.Query(ctx, `
				SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				 WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle' AND query ~ 'INSERT INTO backups|backup_rows|^commit'
				 ORDER BY random() LIMIT 1`)
			if err != nil {
				t.Fatal(err)
			}
			killed, err := pgx.CollectRows(rows, pgx.RowTo[bool])
			if err != nil {
				t.Fatal(err)
			}
			if len(killed) > 0 {
				kills, next = kills+1, answered.Load()+4
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
	if len(rows) > 0 || stored != workers*requests || kills == 0 {
		t.Errorf("after %d broken connections %d of %d requests are there, these more than once: %v", kills, stored, workers*requests, rows)
	}
	t.Logf("%d broken connections", kills)
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
