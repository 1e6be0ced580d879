// Package dbtest gives each test a migrated database of its own on a real
// Postgres.
package dbtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/internal/devenv"
	"github.com/berth-backup/berth/migrations"
)

// Database is one test's own.
type Database struct {
	*db.Store
	// URL is that of the database, as its owner; through the pooler that
	// BERTH_POOLER_URL names, where it is set.
	URL string
	// Direct is the same past any pooler: for what a test does in a session of
	// its own.
	Direct string
}

// New makes a database from the migrated template, which it makes first where
// the server has none yet, and drops it when the test ends.
func New(tb testing.TB) *Database {
	tb.Helper()
	ctx := context.Background()
	server := serverURL(tb)
	name := "berth_test_" + strings.ToLower(rand.Text()[:16])
	if err := create(ctx, server, name); err != nil {
		tb.Fatalf("make a database for the test: %v", err)
	}
	tb.Cleanup(func() {
		if err := admin(ctx, server, "drop database "+name+" with (force)"); err != nil {
			tb.Errorf("drop the test's database: %v", err)
		}
	})
	d := &Database{Direct: databaseURL(tb, server, name)}
	d.URL = d.Direct
	if os.Getenv("BERTH_POOLER_URL") != "" {
		d.URL = Pooled(tb, d.Direct)
	}
	var err error
	if d.Store, err = db.Open(ctx, d.URL); err != nil {
		tb.Fatalf("open the test's database: %v", err)
	}
	tb.Cleanup(d.Store.Close)
	return d
}

// Pooled is the URL of the same database through a pgbouncer that shares
// connections by the transaction. It is started for the first that asks.
func Pooled(tb testing.TB, direct string) string {
	tb.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		tb.Fatalf("read the database's URL: %v", err)
	}
	pooler := devenv.TestPooler(tb, &devenv.Postgres{URL: serverURL(tb)})
	pooled := databaseURL(tb, pooler.URL, strings.TrimPrefix(u.Path, "/"))
	if err := spread(pooled); err != nil {
		tb.Fatalf("use the pooler: %v", err)
	}
	return pooled
}

// spread makes the pooler open several connections to the database: with one it
// would have nothing to choose from, and would hide what needs a session.
func spread(pooled string) error {
	ctx := context.Background()
	for range 3 {
		conn, err := pgx.Connect(ctx, pooled)
		if err != nil {
			return err
		}
		// Until then its transaction has one to itself.
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, "begin"); err != nil {
			return err
		}
		defer func() { _, _ = conn.Exec(ctx, "rollback") }()
	}
	return nil
}

// Empty makes a database without a schema, for tests of the migrations.
func Empty(tb testing.TB) (databaseURLOf string) {
	tb.Helper()
	ctx := context.Background()
	server := serverURL(tb)
	name := "berth_test_" + strings.ToLower(rand.Text()[:16])
	if err := admin(ctx, server, "create database "+name); err != nil {
		tb.Fatalf("make a database for the test: %v", err)
	}
	tb.Cleanup(func() {
		if err := admin(ctx, server, "drop database "+name+" with (force)"); err != nil {
			tb.Errorf("drop the test's database: %v", err)
		}
	})
	return databaseURL(tb, server, name)
}

func databaseURL(tb testing.TB, server, name string) string {
	tb.Helper()
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatalf("read the server's URL: %v", err)
	}
	u.Path = "/" + name
	return u.String()
}

func admin(ctx context.Context, server, statement string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statement)
	return err
}

// create makes a database from the template of this schema. Test binaries of
// several packages share the server, so that the template is made under a lock.
func create(ctx context.Context, server, name string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	template, err := templateName()
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "select pg_advisory_lock(3)"); err != nil {
		return err
	}
	var ready bool
	if err := conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1 and datistemplate)", template).Scan(&ready); err != nil {
		return err
	}
	if !ready {
		if err := makeTemplate(ctx, conn, server, template); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("create database %s template %s strategy file_copy", name, template))
	return err
}

func makeTemplate(ctx context.Context, conn *pgx.Conn, server, template string) error {
	if _, err := conn.Exec(ctx, "drop database if exists "+template); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "create database "+template); err != nil {
		return err
	}
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	u.Path = "/" + template
	if err := migrations.Up(ctx, u.String()); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "alter database "+template+" is_template true")
	return err
}

// templateName changes with the migrations, so that a server that lives longer
// than a schema does not give out an old one.
func templateName() (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(migrations.Files(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(migrations.Files(), path)
		if err != nil {
			return err
		}
		_, err = sum.Write(text)
		return err
	})
	if err != nil {
		return "", err
	}
	return "berth_template_" + hex.EncodeToString(sum.Sum(nil))[:16], nil
}
