package devenv

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// What follows each other on one connection runs on another of the server's, and
// what a transaction leaves behind is not the next one's.
func TestPoolerSharesConnectionsByTheTransaction(t *testing.T) {
	t.Parallel()
	pg := TestPostgres(t)
	pooler := TestPooler(t, pg)
	conn, err := pgx.Connect(t.Context(), pooler.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	seen := map[int]bool{}
	eventually(t, "it runs on three connections of the server's", func() bool {
		var backend int
		if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&backend); err != nil {
			t.Fatal(err)
		}
		seen[backend] = true
		return len(seen) >= 3
	})
	for name, statements := range map[string][2]string{
		"a setting":            {"SET work_mem = '7MB'", "SELECT current_setting('work_mem') = '7MB'"},
		"a prepared statement": {"PREPARE mine AS SELECT 1", "SELECT EXISTS (SELECT FROM pg_prepared_statements WHERE name = 'mine')"},
	} {
		if _, err := conn.Exec(t.Context(), statements[0]); err != nil {
			t.Fatal(err)
		}
		var there bool
		if err := conn.QueryRow(t.Context(), statements[1]).Scan(&there); err != nil {
			t.Fatal(err)
		}
		if there {
			t.Errorf("the next transaction finds %s", name)
		}
	}
	if through, err := namedPostgres(t.Context(), pooler.URL); err != nil || through.Version != pg.Version {
		t.Errorf("through the pooler: %+v, %v; want version %d", through, err, pg.Version)
	}
}

func TestPoolerAsksForThePassword(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig(TestPooler(t, TestPostgres(t)).URL)
	if err != nil {
		t.Fatal(err)
	}
	config.Password = "wrong"
	if conn, err := pgx.ConnectConfig(t.Context(), config); err == nil {
		t.Error("it takes any password", conn.Close(t.Context()))
	}
}

func TestStoppedPoolerLeavesNothing(t *testing.T) {
	t.Parallel()
	pooler, err := StartPooler(t.Context(), TestPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pooler.Stop()
	folder := pooler.folder.path
	if len(processesIn(t, folder)) == 0 {
		t.Errorf("no pooler runs in %s", folder)
	}
	if err := pooler.Stop(); err != nil {
		t.Error(err)
	}
	if found := processesIn(t, folder); len(found) > 0 {
		t.Errorf("still running: %v", found)
	}
	if !gone(folder) {
		t.Errorf("%s is still there", folder)
	}
	if _, err := namedPostgres(t.Context(), pooler.URL); err == nil {
		t.Error("a stopped pooler answers")
	}
}

func TestPoolerOfNoPasswordTrusts(t *testing.T) {
	t.Parallel()
	u := mustParse(t, "postgres://somebody@127.0.0.1/postgres")
	settings := poolerSettings(u, 6432, &folder{path: "/nowhere"})
	for _, want := range []string{"* = host=127.0.0.1 port=5432\n", "listen_port = 6432\n", "auth_type = trust\n"} {
		if !strings.Contains(settings, want) {
			t.Errorf("no %q in\n%s", want, settings)
		}
	}
	if got, want := poolerUsers(mustParse(t, `postgres://some%22body:pass@127.0.0.1/`)), `"some""body" "pass"`+"\n"; got != want {
		t.Errorf("users %q, want %q", got, want)
	}
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
