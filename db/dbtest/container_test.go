//go:build containers

package dbtest

import (
	"context"
	"crypto/rand"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestStartPostgresContainer(t *testing.T) {
	run := rand.Text()
	t.Setenv("BERTH_TEST_RUN", run)
	ctx, cancel := context.WithCancel(t.Context())
	url, stop, err := StartPostgresContainer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if containersOf(t, run) == "" {
		t.Error("no container carries the run's label")
	}
	if version := ask(t, url, "show server_version"); !strings.HasPrefix(version, "18.") {
		t.Errorf("server is %s, want an 18", version)
	}
	if database := ask(t, url, "select current_database()"); database != "berth" {
		t.Errorf("database is %q, want %q", database, "berth")
	}

	// The cleanup of a test whose context has ended.
	cancel()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if left := containersOf(t, run); left != "" {
		t.Errorf("left after stop: %s", left)
	}
}

func ask(t *testing.T, url, query string) (answer string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if err := conn.QueryRow(t.Context(), query).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return answer
}

// containersOf returns the ids of the run's containers, one a line.
func containersOf(t *testing.T, run string) string {
	t.Helper()
	ids, err := exec.CommandContext(t.Context(), "docker", "ps", "--all", "--quiet",
		"--filter", "label="+containerRunLabel+"="+run).Output()
	if err != nil {
		t.Fatalf("list containers: %v", err)
	}
	return strings.TrimSpace(string(ids))
}
