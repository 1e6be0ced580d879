package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
	"github.com/berth-backup/berth/migrations"
)

func TestMigrateUpDownAndVersion(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.Empty(t)
	latest := fmt.Sprintf("%d\n", migrations.Latest)
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"migrate", "version"}, "0\n"},
		{[]string{"migrate", "up"}, ""},
		{[]string{"migrate", "version"}, latest},
		{[]string{"migrate", "up"}, ""},
		{[]string{"migrate", "down", "--steps", fmt.Sprint(migrations.Latest)}, ""},
		{[]string{"migrate", "version"}, "0\n"},
		{[]string{"migrate", "up", "--database-url", databaseURL}, ""},
		{[]string{"migrate", "version"}, latest},
	} {
		if got := runs(t, databaseURL, step.args...); got != step.want {
			t.Errorf("berth %v wrote %q, want %q", step.args, got, step.want)
		}
	}
}

// What the older schema cannot hold is told on one line, with what to do first.
func TestMigrateDownSaysWhyItRefuses(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	if _, err := d.Pause(t.Context(), berth.DefaultCluster, berth.PauseRequest{}); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, []string{"BERTH_DATABASE_URL=" + d.URL}, "migrate", "down", "--steps", fmt.Sprint(migrations.Latest-1))
	code := p.awaitEnd()
	const want = "berth: migrate: the schema of version 1 cannot hold paused queues (1): first resume the paused queues\n"
	if got := p.output.String(); code != 1 || got != want {
		t.Errorf("ended with %d and wrote %q, want %q", code, got, want)
	}
	if got, want := strings.TrimSpace(runs(t, d.URL, "migrate", "version")), fmt.Sprint(migrations.Latest); got != want {
		t.Errorf("the schema has version %s, want %s", got, want)
	}
}

// runs runs berth to its end, which is to be a good one, and gives what it
// wrote.
func runs(t *testing.T, databaseURL string, args ...string) string {
	t.Helper()
	p := startProcess(t, []string{"BERTH_DATABASE_URL=" + databaseURL}, args...)
	if code := p.awaitEnd(); code != 0 {
		t.Fatalf("%s ended with %d: %s", p.name, code, p.output.String())
	}
	return p.output.String()
}

func TestServersThatStartAtOnceOnAnEmptyDatabaseAllServe(t *testing.T) {
	t.Parallel()
	environment := []string{"BERTH_DATABASE_URL=" + dbtest.Empty(t), "BERTH_DATA=" + t.TempDir()}
	var servers []*process
	for range 3 {
		servers = append(servers, startProcess(t, environment, "server", "--listen", "127.0.0.1:0"))
	}
	for _, server := range servers {
		server.awaitOutput(`msg=serving address=(\S+)`)
	}
}
