package migrations

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// driver applies migrations for golang-migrate, which has one for pgx too. That
// one locks by the session: through a pooler that shares connections the lock
// stays on one that nobody finds again, and every later migration waits for it.
// It also leaves a schema half-way, and marked as dirty, where a migration fails.
//
// This one does all from Lock to Unlock in one transaction, which also holds the
// lock: where one migration fails, nothing was changed.
type driver struct {
	// ctx ends the wait for the lock. What runs behind it runs to its end.
	ctx  context.Context
	conn *pgx.Conn
}

func newDriver(ctx context.Context, config *pgx.ConnConfig) (*driver, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &driver{ctx: ctx, conn: conn}, nil
}

func (d *driver) uninterrupted() context.Context { return context.WithoutCancel(d.ctx) }

// Lock begins, and waits until no other process migrates the database. Each
// statement behind the lock sees what the others did.
func (d *driver) Lock() error {
	const lock = "begin isolation level read committed; set local idle_in_transaction_session_timeout = 0; select pg_advisory_xact_lock(3, 0)"
	if _, err := d.conn.Exec(d.ctx, lock); err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	return nil
}

// Unlock commits; where a statement failed, Postgres rolls back instead.
func (d *driver) Unlock() error {
	_, err := d.conn.Exec(d.uninterrupted(), "commit")
	return err
}

// refusal is the SQLSTATE of a migration that refuses to run. Its hint says what
// to do first.
const refusal = "BE003"

// Run runs a migration's statements.
func (d *driver) Run(migration io.Reader) error {
	statements, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	_, err = d.conn.Exec(d.uninterrupted(), string(statements))
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == refusal {
		return fmt.Errorf("%s: %s", e.Message, e.Hint)
	}
	return err
}

// SetVersion writes the version, none for database.NilVersion that is not dirty.
// Who reads it meanwhile reads the one before and does not wait.
func (d *driver) SetVersion(version int, dirty bool) error {
	_, err := d.conn.Exec(d.uninterrupted(), `
		CREATE TABLE IF NOT EXISTS schema_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL);
		DELETE FROM schema_migrations`)
	if err != nil || version == database.NilVersion && !dirty {
		return err
	}
	_, err = d.conn.Exec(d.uninterrupted(), "INSERT INTO schema_migrations (version, dirty) VALUES ($1, $2)", version, dirty)
	return err
}

// Version reads the version; database.NilVersion before the first migration. It
// reads pg_class: to_regclass may remember from before the wait for the lock that
// there was no such table, and would have the migrations run a second time.
func (d *driver) Version() (version int, dirty bool, err error) {
	var any bool
	if err := d.conn.QueryRow(d.uninterrupted(), "SELECT EXISTS (SELECT FROM pg_class WHERE relname = 'schema_migrations' AND pg_table_is_visible(oid))").Scan(&any); err != nil || !any {
		return database.NilVersion, false, err
	}
	err = d.conn.QueryRow(d.uninterrupted(), "SELECT version, dirty FROM schema_migrations").Scan(&version, &dirty)
	if errors.Is(err, pgx.ErrNoRows) {
		return database.NilVersion, false, nil
	}
	return version, dirty, err
}

// Close ends the connection.
func (d *driver) Close() error { return d.conn.Close(d.uninterrupted()) }

// Open and Drop are of golang-migrate's command line alone.
func (d *driver) Open(string) (database.Driver, error) { return nil, errors.ErrUnsupported }

func (d *driver) Drop() error { return errors.ErrUnsupported }
