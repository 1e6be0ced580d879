package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/db/dbtest"
	"github.com/berth-backup/berth/migrations"
)

// schema lists everything that a schema consists of, as Postgres spells it.
const schema = `
SELECT 'table ' || c.oid::regclass || ' ' || c.relkind::text || coalesce(' ' || pg_get_expr(c.relpartbound, c.oid), '') || coalesce(' ' || array_to_string(c.reloptions, ','), '')
  FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relname <> 'schema_migrations' AND c.relname <> 'schema_migrations_pkey'
UNION ALL SELECT 'column ' || a.attrelid::regclass || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull || ' ' || a.attidentity::text || a.attgenerated::text || coalesce(' ' || pg_get_expr(d.adbin, d.adrelid), '')
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped AND c.relname <> 'schema_migrations' AND c.relname <> 'schema_migrations_pkey'
UNION ALL SELECT 'constraint ' || conrelid::regclass || '.' || conname || ' ' || pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid <> coalesce(to_regclass('schema_migrations'), 0)
UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'schema_migrations'
UNION ALL SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'report'))
UNION ALL SELECT 'trigger ' || pg_get_triggerdef(t.oid) FROM pg_trigger t WHERE NOT tgisinternal
UNION ALL SELECT 'view ' || viewname || ' ' || definition FROM pg_views WHERE schemaname IN ('public', 'report')
UNION ALL SELECT 'cluster ' || name FROM clusters
ORDER BY 1`

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func list(t *testing.T, conn *pgx.Conn, sql string) []string {
	t.Helper()
	rows, err := conn.Query(context.Background(), sql)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func up(t *testing.T, url string) {
	t.Helper()
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
}

func checkVersion(t *testing.T, url string, want uint, wantDirty bool) {
	t.Helper()
	version, dirty, err := migrations.Version(t.Context(), url)
	if err != nil || version != want || dirty != wantDirty {
		t.Errorf("version %d, dirty %v, %v; want %d, %v", version, dirty, err, want, wantDirty)
	}
}

// Up, down and up again: nothing is left in between, and the schema is the same.
func TestUpDownUp(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string]int{"all at once": 0, "one by one": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := dbtest.Empty(t)
			checkVersion(t, url, 0, false)
			up(t, url)
			checkVersion(t, url, migrations.Latest, false)
			conn := connect(t, url)
			first := list(t, conn, schema)
			if len(first) < 100 {
				t.Fatalf("the schema has only %d parts", len(first))
			}
			up(t, url) // again changes nothing

			for range max(1, steps*migrations.Latest) {
				if err := migrations.Down(t.Context(), url, steps); err != nil {
					t.Fatal(err)
				}
			}
			checkVersion(t, url, 0, false)
			left := list(t, conn, `
				SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname NOT LIKE 'schema_migrations%'
				UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace`)
			if diff := cmp.Diff([]string{}, left); diff != "" {
				t.Errorf("left after down (-want +got):\n%s", diff)
			}
			up(t, url)
			if diff := cmp.Diff(first, list(t, conn, schema)); diff != "" {
				t.Errorf("the schema after up, down and up (-first +second):\n%s", diff)
			}
		})
	}
}

// Where one migration fails, all that were asked for change nothing.
func TestFailedMigrationChangesNothing(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	up(t, url)
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), "CREATE VIEW mine AS SELECT name FROM backup_rows"); err != nil {
		t.Fatal(err)
	}
	before := list(t, conn, schema)
	for _, steps := range []int{migrations.Latest - 1, 0} {
		if err := migrations.Down(t.Context(), url, steps); err == nil || !strings.Contains(err.Error(), "backup_rows") {
			t.Errorf("%d steps down: %v", steps, err)
		}
		checkVersion(t, url, migrations.Latest, false)
		if diff := cmp.Diff(before, list(t, conn, schema)); diff != "" {
			t.Errorf("%d steps down (-before +after):\n%s", steps, diff)
		}
	}
}

// A schema that was migrated down is the one of that version.
func TestDownIsTheOlderSchema(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	files, err := fs.Glob(migrations.Files(), "*.up.sql")
	if err != nil || len(files) != migrations.Latest {
		t.Fatalf("migrations %q, %v", files, err)
	}
	url, older := dbtest.Empty(t), connect(t, dbtest.Empty(t))
	conn := connect(t, url)
	for version, file := range files[:migrations.Latest-1] {
		text, err := fs.ReadFile(migrations.Files(), file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := older.Exec(ctx, string(text)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		up(t, url)
		if err := migrations.Down(ctx, url, migrations.Latest-1-version); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(list(t, older, schema), list(t, conn, schema)); diff != "" {
			t.Errorf("version %d (-migrated up to it +migrated down to it):\n%s", version+1, diff)
		}
	}
}

// Of several processes that start at once, one migrates and the others wait;
// also through a pooler that shares connections, where no lock stays behind.
func TestManyMigrateAtOnce(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"directly", "through a pooler"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			direct := dbtest.Empty(t)
			url := direct
			if way == "through a pooler" {
				url = dbtest.Pooled(t, direct)
			}
			errs := make([]error, 5)
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() { errs[i] = migrations.Up(t.Context(), url) })
			}
			all.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			checkVersion(t, url, migrations.Latest, false)
			conn := connect(t, direct)
			if diff := cmp.Diff([]string{"default"}, list(t, conn, "SELECT name FROM clusters")); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			held := list(t, conn, `
				SELECT l.objid::text FROM pg_locks l
				 WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
			if diff := cmp.Diff([]string{}, held); diff != "" {
				t.Errorf("locks that stay (-want +got):\n%s", diff)
			}
		})
	}
}

// Who waited for another process sees what that one did, however little it was.
func TestWhoWaitedSeesWhatWasMigrated(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := dbtest.Empty(t)
	other := connect(t, url)
	exec := func(sql string) {
		t.Helper()
		if _, err := other.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("BEGIN; SELECT pg_advisory_xact_lock(3, 0)")
	migrated := make(chan error, 1)
	go func() { migrated <- migrations.Up(ctx, url) }()
	for waits := false; !waits; {
		const waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
		if err := other.QueryRow(ctx, waiting).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	exec(fmt.Sprintf("CREATE TABLE schema_migrations (version bigint PRIMARY KEY, dirty boolean); INSERT INTO schema_migrations VALUES (%d, false); COMMIT", migrations.Latest))
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	if tables := list(t, other, "SELECT relname::text FROM pg_class WHERE relname = 'clusters'"); len(tables) > 0 {
		t.Error("it migrated what was migrated")
	}
}

// A process refuses an older schema than its own with the command that mends
// it, runs on a newer one, and stops at one that broke off.
func TestSchemaVersions(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	ctx := t.Context()
	open := func(want string) {
		t.Helper()
		s, err := db.Open(ctx, url)
		if err == nil {
			s.Close()
		}
		switch {
		case want == "" && err != nil:
			t.Errorf("open: %v", err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("open: %v, want one line with %q", err, want)
		}
	}
	open("run: berth migrate up")
	up(t, url)
	open("")
	conn := connect(t, url)
	set := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	set("UPDATE schema_migrations SET version = version + 1")
	checkVersion(t, url, migrations.Latest+1, false)
	up(t, url)
	checkVersion(t, url, migrations.Latest+1, false)
	open("")

	set("UPDATE schema_migrations SET version = version - 1, dirty = true")
	checkVersion(t, url, migrations.Latest, true)
	open("broke off")
	if err := migrations.Up(ctx, url); err == nil {
		t.Error("up on a database whose last migration broke off says nothing")
	}
	set("UPDATE schema_migrations SET dirty = false")
	if err := migrations.Down(ctx, url, 0); err != nil {
		t.Fatal(err)
	}
	open("run: berth migrate up")
}

func TestBadDatabaseURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://127.0.0.1:1/none", "postgres://%", "::"} {
		if err := migrations.Up(t.Context(), url); err == nil {
			t.Errorf("%s: no error", url)
		}
	}
}
