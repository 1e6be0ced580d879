package devenv

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// setting asks the server for one of its settings.
func setting(t *testing.T, pg *Postgres, name string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var value string
	if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestStoppedPostgresLeavesNothing(t *testing.T) {
	t.Parallel()
	pg, err := StartPostgres(t.Context(), PostgresOptions{Settings: map[string]string{"work_mem": "5MB"}})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Stop()
	if pg.Version < oldestPostgres {
		t.Errorf("version %d", pg.Version)
	}
	for name, want := range map[string]string{"max_connections": "300", "fsync": "off", "work_mem": "5MB", "listen_addresses": "127.0.0.1"} {
		if got := setting(t, pg, name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	folder := filepath.Dir(setting(t, pg, "data_directory"))
	if len(processesIn(t, folder)) == 0 {
		t.Errorf("no server runs in %s", folder)
	}

	for range 2 {
		if err := pg.Stop(); err != nil {
			t.Error(err)
		}
	}
	if found := processesIn(t, folder); len(found) > 0 {
		t.Errorf("still running: %v", found)
	}
	if !gone(folder) {
		t.Errorf("%s is still there", folder)
	}
	if _, err := namedPostgres(t.Context(), pg.URL); err == nil {
		t.Error("a stopped server answers")
	}
}

func TestDurablePostgresSyncs(t *testing.T) {
	t.Parallel()
	pg, err := StartPostgres(t.Context(), PostgresOptions{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Stop()
	if got := setting(t, pg, "fsync"); got != "on" {
		t.Errorf("fsync = %s", got)
	}
}

func TestPostgresKeepsANamedFolder(t *testing.T) {
	t.Parallel()
	parent, err := newFolder("kept", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.remove()
	owner, err := postgresAccount()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.own(parent.path); err != nil {
		t.Fatal(err)
	}
	opts := PostgresOptions{Dir: parent.join("kept")}
	for _, statement := range []string{"CREATE TABLE kept (n int)", "SELECT n FROM kept"} {
		pg, err := StartPostgres(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		defer pg.Stop()
		conn, err := pgx.Connect(t.Context(), pg.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := pg.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestPostgresThatDoesNotStartSaysWhy(t *testing.T) {
	t.Parallel()
	pg, err := StartPostgres(t.Context(), PostgresOptions{Settings: map[string]string{"nonsense": "1"}})
	if err == nil {
		t.Fatal(pg.Stop(), "it started")
	}
	if !strings.Contains(err.Error(), `unrecognized configuration parameter "nonsense"`) {
		t.Error(err)
	}
}

func TestStoppingAGivenPostgresDoesNothing(t *testing.T) {
	t.Parallel()
	given := TestPostgres(t)
	pg, err := namedPostgres(t.Context(), given.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.Stop(); err != nil {
		t.Error(err)
	}
	if got, err := namedPostgres(t.Context(), given.URL); err != nil || got.Version != given.Version {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestPostgresOfASharedProcessIsOne(t *testing.T) {
	t.Parallel()
	first := TestPostgres(t)
	if second := TestPostgres(t); second != first {
		t.Error("two servers")
	}
}
