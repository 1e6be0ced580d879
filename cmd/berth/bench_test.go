package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth/cmd/berth/bench"
	"github.com/berth-backup/berth/db/dbtest"
)

// measured are the metrics of every shape of one cluster.
var measured = []string{
	"bare_commit", "bare_round_trip", "cancel", "constraint_hits", "cycles_1", "cycles_8", "cycles_worker", "dequeue",
	"dequeue_blocked", "dequeue_idle", "enqueue", "enqueue_bulk", "gate_hold", "leave", "mark_all", "position", "queue_page", "retries_40001", "slot_turnaround",
}

// A short measurement has every cell, leaves the database that it was given as
// it was, and can be shown as a table.
func TestBenchQueue(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.Empty(t)
	var output bytes.Buffer
	command := rootCommand()
	command.SetOut(&output)
	command.SetErr(io.Discard)
	command.SetArgs([]string{"bench", "queue", "--database-url", databaseURL, "--depths", "200", "--iterations", "5", "-o", "json"})
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	report, err := bench.ReadReport(bytes.NewReader(output.Bytes()))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, output.String())
	}
	if h := report.Header; h.Cores < 1 || h.Postgres == "" || h.Fsync == "" || h.SynchronousCommit == "" || h.Iterations != 5 {
		t.Errorf("the header is %+v", h)
	}
	metrics := map[string][]string{}
	for _, c := range report.Cells {
		metrics[c.Shape] = append(metrics[c.Shape], c.Metric)
		checkCell(t, c)
	}
	for _, shape := range bench.ShapeNames() {
		want := measured
		switch shape {
		case "empty":
			want = []string{"wake_up", "gate_hold", "constraint_hits"}
		case "two-clusters":
			want = []string{"cycles_of_1_clusters", "cycles_of_2_clusters", "constraint_hits"}
		case "hot", "50-namespaces":
			want = append(slices.Clone(want), "wake_up")
		case "everything-but-in-front":
			want = append(slices.Clone(want), "wake_up", "leave_watched", "release_all")
		}
		for _, metric := range want {
			if !slices.Contains(metrics[shape], metric) {
				t.Errorf("%s of %s is not measured; %v is", metric, shape, metrics[shape])
			}
		}
	}
	checkUntouched(t, databaseURL)
	checkTable(t, output.Bytes())
}

func checkCell(t *testing.T, c bench.Cell) {
	t.Helper()
	timed := c.P50 != nil && c.P99 != nil && c.Max != nil && *c.P50 > 0 && *c.P50 <= *c.P99 && *c.P99 <= *c.Max
	rated := c.PerSecond != nil && *c.PerSecond > 0
	counted := c.Value != nil && *c.Value >= 0
	if c.Error != "" || c.N < 1 || !timed && !rated && !counted {
		t.Errorf("%s of %s says nothing: %+v", c.Metric, c.Shape, c)
	}
	if c.Depth != 200 && c.Shape != "empty" {
		t.Errorf("%s of %s is measured at %d, not at 200", c.Metric, c.Shape, c.Depth)
	}
	if c.Metric == "constraint_hits" && *c.Value != 0 {
		t.Errorf("the last line of defence refused %v admissions of %s", *c.Value, c.Shape)
	}
}

// checkUntouched checks that a database has no table.
func checkUntouched(t *testing.T, databaseURL string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var tables int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&tables); err != nil {
		t.Fatal(err)
	}
	if tables != 0 {
		t.Errorf("the database that was named has %d tables now", tables)
	}
}

func checkTable(t *testing.T, report []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, report, 0o600); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	command := rootCommand()
	command.SetOut(&output)
	command.SetArgs([]string{"bench", "show", file})
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, shape := range bench.ShapeNames() {
		if !strings.Contains(output.String(), shape) {
			t.Errorf("the table does not have %s:\n%s", shape, output.String())
		}
	}
}

// A measurement that is broken off drops its databases too.
func TestBenchQueueDropsItsDatabases(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	databaseURL := dbtest.Empty(t)
	conn, err := pgx.Connect(context.Background(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var prefix string
	count := func() (n int) {
		t.Helper()
		err := conn.QueryRow(context.Background(), "SELECT count(*) FROM pg_database WHERE datname LIKE $1 || '%'", prefix).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	err = bench.Queue(ctx, bench.QueueOptions{
		DatabaseURL: databaseURL, Depths: []int{100, 101}, Shapes: []string{"hot"}, Iterations: 1, Progress: io.Discard,
		Header: func(h bench.Header) error {
			prefix = h.Databases
			return nil
		},
		// The queue of one depth is done, and there is another.
		Cell: func(bench.Cell) error {
			cancel()
			return nil
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a measurement that was broken off: %v", err)
	}
	if left := count(); left != 0 {
		t.Errorf("%d databases are left behind", left)
	}
}

func TestBenchQueueRefuses(t *testing.T) {
	t.Parallel()
	for _, wrong := range [][]string{
		{"--shapes", "round"}, {"--depths", "10"}, {"--iterations", "0"}, {"-o", "yaml"},
	} {
		command := rootCommand()
		command.SetArgs(append([]string{"bench", "queue", "--database-url", "postgres://127.0.0.1:1/nothing"}, wrong...))
		if err := command.ExecuteContext(t.Context()); err == nil || strings.Contains(err.Error(), "connect") {
			t.Errorf("berth bench queue %v: %v", wrong, err)
		}
	}
}
