package db_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

func mirrors(tb testing.TB, d *dbtest.Database, limit int) []berth.Mirror {
	tb.Helper()
	found, err := d.Mirrors(context.Background(), berth.DefaultCluster, limit)
	if err != nil {
		tb.Fatal(err)
	}
	return found
}

func mirrored(tb testing.TB, d *dbtest.Database, all []berth.Mirror) {
	tb.Helper()
	for _, m := range all {
		if err := d.Mirrored(context.Background(), m, "uid-"+m.Backup.Name); err != nil {
			tb.Fatal(err)
		}
	}
}

// behind says of each object that is behind its phase, its place and its uid.
func behind(all []berth.Mirror) map[string]string {
	found := map[string]string{}
	for _, m := range all {
		position := 0
		if m.Backup.Queue != nil {
			position = m.Backup.Queue.Position
		}
		found[m.Backup.Name] = fmt.Sprintf("%s %d %s", m.Backup.Phase, position, m.ObjectUID)
	}
	return found
}

// Every change of a backup is behind until its object is as the row was read,
// and a change that comes while the object is written stays behind.
func TestMirrors(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	check := func(what string, want map[string]string) []berth.Mirror {
		t.Helper()
		all := mirrors(t, d, 100)
		if diff := cmp.Diff(want, behind(all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		return all
	}
	none := map[string]string{}
	enqueue(t, d, request("first", "a"))
	enqueue(t, d, request("second", "a"))
	mirrored(t, d, check("enqueued", map[string]string{"first": "Queued 1 ", "second": "Queued 2 "}))
	check("mirrored", none)

	run := dispatch(t, d, 1)[0]
	mirrored(t, d, check("admitted: both move on", map[string]string{"first": "ReadyToStart 0 uid-first", "second": "Queued 1 uid-second"}))
	if err := d.Start(ctx, run); err != nil {
		t.Fatal(err)
	}
	read := check("started", map[string]string{"first": "InProgress 0 uid-first"})
	if err := d.Progress(ctx, run, berth.Progress{ItemsBackedUp: 1}); err != nil {
		t.Fatal(err)
	}
	mirrored(t, d, read)
	mirrored(t, d, check("progress came meanwhile", map[string]string{"first": "InProgress 0 uid-first"}))
	check("all mirrored", none)

	if n := len(mirrors(t, d, 0)); n != 0 {
		t.Errorf("a limit of 0 gives %d", n)
	}
}

// The entries of one backup in the outbox are in the order of their commits: a
// progress that overtook an open transition would let its object be taken for
// up to date without it.
func TestProgressWaitsForATransition(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	enqueue(t, d, request("b", "a"))
	run := dispatch(t, d, 1)[0]
	if err := d.Start(ctx, run); err != nil {
		t.Fatal(err)
	}
	mirrored(t, d, mirrors(t, d, 10))
	h := hold(t, d.URL)
	h.exec("UPDATE backups SET phase = 'Finalizing', version = version + 1 WHERE seq = $1", run.Seq)
	h.exec("INSERT INTO mirror_outbox (cluster_id, seq) VALUES (1, $1)", run.Seq)
	reported := during(func() error { return d.Progress(ctx, run, berth.Progress{ItemsBackedUp: 1}) })
	awaitBlocked(t, d.URL, 1)
	if n := len(mirrors(t, d, 10)); n != 0 {
		t.Errorf("%d are behind before anything was committed", n)
	}
	h.exec("commit")
	if err := reported(); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"b": "Finalizing 0 uid-b"}
	if diff := cmp.Diff(want, behind(mirrors(t, d, 10))); diff != "" {
		t.Errorf("behind (-want +got):\n%s", diff)
	}
}

// One holder leads a cluster's mirror until its time is up.
func TestLeadMirror(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)
	lead := func(holder string, ttl time.Duration, want bool) {
		t.Helper()
		leads, err := d.LeadMirror(ctx, berth.DefaultCluster, holder, ttl)
		if err != nil || leads != want {
			t.Errorf("%s leads: %v, %v; want %v", holder, leads, err, want)
		}
	}
	lead("one", time.Hour, true)
	lead("two", time.Hour, false)
	lead("one", -time.Second, true)
	lead("two", time.Hour, true)
	lead("one", time.Hour, false)
}
