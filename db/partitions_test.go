package db_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth/db/dbtest"
)

const partitionsOfEvents = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'events'::regclass ORDER BY 1"

func partitions(tb testing.TB, conn *pgx.Conn) []string {
	tb.Helper()
	rows, err := conn.Query(context.Background(), partitionsOfEvents)
	if err != nil {
		tb.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		tb.Fatal(err)
	}
	return found
}

// monthsFrom names so many months' partitions, from the database's month on.
func monthsFrom(tb testing.TB, conn *pgx.Conn, months int) []string {
	tb.Helper()
	var now time.Time
	if err := conn.QueryRow(context.Background(), "SELECT clock_timestamp()").Scan(&now); err != nil {
		tb.Fatal(err)
	}
	first := time.Date(now.UTC().Year(), now.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	var names []string
	for i := range months {
		names = append(names, "events_"+first.AddDate(0, i, 0).Format("2006_01"))
	}
	return names
}

// The partitions of this month and of three more are there from the first
// migration on, and come back where they are missing: a month without one is an
// error that is seen, and leaves nothing half done.
func TestPartitions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	conn := connect(t, d.URL)
	want := monthsFrom(t, conn, 4)
	if diff := cmp.Diff(want, partitions(t, conn)); diff != "" {
		t.Fatalf("after the migration (-want +got):\n%s", diff)
	}
	enqueue(t, d, request("before", "a"))

	if _, err := conn.Exec(ctx, "DROP TABLE "+want[0]+", "+want[2]); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Enqueue(ctx, request("between", "a")); err == nil || !strings.Contains(err.Error(), "no partition") {
		t.Errorf("a month without a partition: %v", err)
	}
	if err := race(
		func() error { return d.MakePartitions(ctx) },
		func() error { return d.MakePartitions(ctx) },
		func() error { return d.MakePartitions(ctx) },
	); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, partitions(t, conn)); diff != "" {
		t.Errorf("mended (-want +got):\n%s", diff)
	}
	enqueue(t, d, request("between", "a"))
	if diff := cmp.Diff([]string{"before"}, names(dispatch(t, d, 1))); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
	checkNoRetries(t, d.Store)
}

// A month begins and ends in UTC, whatever the time zone of the session.
func TestMonthsEdge(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	conn := connect(t, dbtest.New(t).Direct)
	for _, sql := range []string{
		"SET timezone = 'America/New_York'",
		// In New York it is still November.
		"SELECT make_event_partitions('2031-11-30 22:00:00-05', 1)",
		"SET timezone = 'Pacific/Auckland'",
		"SELECT make_event_partitions('2032-02-01 00:30:00+13', 0)",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	made := partitions(t, conn)
	if diff := cmp.Diff([]string{"events_2031_12", "events_2032_01"}, made[len(made)-2:]); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	for at, want := range map[string]string{
		"2031-12-01 00:00:00Z":        "events_2031_12",
		"2031-12-31 23:59:59.999999Z": "events_2031_12",
		"2032-01-01 00:00:00Z":        "events_2032_01",
		"2031-12-31 23:00:00-05":      "events_2032_01",
		"2032-01-31 23:59:59.999999Z": "events_2032_01",
	} {
		var got string
		err := conn.QueryRow(ctx, "INSERT INTO events (at, cluster_id, reason) VALUES ($1::text::timestamptz, 1, 'Test') RETURNING tableoid::regclass::text", at).Scan(&got)
		if err != nil || got != want {
			t.Errorf("an event at %s is in %q, %v; want %s", at, got, err, want)
		}
	}
	for _, at := range []string{"2031-11-30 23:59:59.999999Z", "2032-02-01 00:00:00Z"} {
		if _, err := conn.Exec(ctx, "INSERT INTO events (at, cluster_id, reason) VALUES ($1::text::timestamptz, 1, 'Test')", at); refusal(err) == "" {
			t.Errorf("an event at %s has a partition", at)
		}
	}
}
