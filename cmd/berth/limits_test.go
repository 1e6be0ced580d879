package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

// The limits of a worker's command line are stored. One that differs from what is
// stored says both numbers, one below 1 counts as 1 with a warning, one that is
// left out is as it is stored.
func TestLimitsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	const below, differs = "a limit below 1 counts as 1", "the command line changes a limit of the cluster"
	d := dbtest.New(t)
	for _, step := range []struct {
		args                []string
		concurrent, workers int
		said                []map[string]any
	}{
		{nil, 1, 1, nil},
		{[]string{"--concurrent-backups", "0", "--item-block-worker-count", "-3"}, 1, 1, []map[string]any{
			{"level": "WARN", "msg": below, "flag": "--concurrent-backups", "given": 0.0},
			{"level": "WARN", "msg": below, "flag": "--item-block-worker-count", "given": -3.0},
		}},
		{[]string{"--concurrent-backups", "3", "--item-block-worker-count", "4"}, 3, 4, []map[string]any{
			{"level": "WARN", "msg": differs, "cluster": "default", "setting": "concurrentBackups", "stored": 1.0, "flag": 3.0},
			{"level": "WARN", "msg": differs, "cluster": "default", "setting": "itemBlockWorkerCount", "stored": 1.0, "flag": 4.0},
		}},
		{[]string{"--concurrent-backups", "3", "--item-block-worker-count", "4"}, 3, 4, nil},
		{nil, 3, 4, nil},
		{[]string{"--item-block-worker-count", "0"}, 3, 1, []map[string]any{
			{"level": "WARN", "msg": below, "flag": "--item-block-worker-count", "given": 0.0},
			{"level": "WARN", "msg": differs, "cluster": "default", "setting": "itemBlockWorkerCount", "stored": 4.0, "flag": 1.0},
		}},
	} {
		var limits limitFlags
		flags := pflag.NewFlagSet("worker", pflag.ContinueOnError)
		limits.add(flags)
		if err := flags.Parse(step.args); err != nil {
			t.Fatal(err)
		}
		limits.read(flags)
		if err := limits.check(); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		if err := limits.apply(t.Context(), d, berth.DefaultCluster, slog.New(slog.NewJSONHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		var said []map[string]any
		for lines := json.NewDecoder(&log); lines.More(); {
			var one map[string]any
			if err := lines.Decode(&one); err != nil {
				t.Fatal(err)
			}
			delete(one, "time")
			said = append(said, one)
		}
		if diff := cmp.Diff(step.said, said); diff != "" {
			t.Errorf("%v said (-want +got):\n%s", step.args, diff)
		}
		stored, err := d.Settings(t.Context(), berth.DefaultCluster)
		if err != nil {
			t.Fatal(err)
		}
		if stored.ConcurrentBackups != step.concurrent || stored.ItemBlockWorkerCount != step.workers {
			t.Errorf("%v: %d and %d are stored, want %d and %d", step.args, stored.ConcurrentBackups, stored.ItemBlockWorkerCount, step.concurrent, step.workers)
		}
	}
}
