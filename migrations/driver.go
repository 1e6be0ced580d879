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
// This one locks by a transaction, on a connection of its own.
type driver struct {
	// ctx ends the wait for the lock. What runs behind it runs to its end: a
	// migration that breaks off has to be mended by hand.
	ctx    context.Context
	config *pgx.ConnConfig
	conn   *pgx.Conn
	// holder has the transaction that holds the lock; nil while nobody does.
	holder *pgx.Conn
}

func newDriver(ctx context.Context, config *pgx.ConnConfig) (*driver, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &driver{ctx: ctx, config: config, conn: conn}, nil
}

func (d *driver) uninterrupted() context.Context { return context.WithoutCancel(d.ctx) }

// Lock waits until no other process migrates the database.
func (d *driver) Lock() error {
	holder, err := pgx.ConnectConfig(d.ctx, d.config)
	if err != nil {
		return fmt.Errorf("connect for the lock: %w", err)
	}
	// It holds the lock idle for as long as the migrations take.
	const lock = "begin; set local idle_in_transaction_session_timeout = 0; select pg_advisory_xact_lock(3, 0)"
	if _, err := holder.Exec(d.ctx, lock); err != nil {
		return errors.Join(fmt.Errorf("lock the schema: %w", err), holder.Close(d.uninterrupted()))
	}
	d.holder = holder
	return nil
}

// Unlock ends the transaction with the lock.
func (d *driver) Unlock() error {
	holder := d.holder
	d.holder = nil
	_, err := holder.Exec(d.uninterrupted(), "rollback")
	return errors.Join(err, holder.Close(d.uninterrupted()))
}

// Run runs a migration's statements in one transaction.
func (d *driver) Run(migration io.Reader) error {
	statements, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	_, err = d.conn.Exec(d.uninterrupted(), string(statements))
	return err
}

// SetVersion writes the version, none for database.NilVersion that is not dirty.
func (d *driver) SetVersion(version int, dirty bool) error {
	return pgx.BeginFunc(d.uninterrupted(), d.conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(d.uninterrupted(), `
			CREATE TABLE IF NOT EXISTS schema_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL);
			TRUNCATE schema_migrations`)
		if err != nil || version == database.NilVersion && !dirty {
			return err
		}
		_, err = tx.Exec(d.uninterrupted(), "INSERT INTO schema_migrations (version, dirty) VALUES ($1, $2)", version, dirty)
		return err
	})
}

// Version reads the version; database.NilVersion before the first migration.
func (d *driver) Version() (version int, dirty bool, err error) {
	err = d.conn.QueryRow(d.uninterrupted(), "SELECT version, dirty FROM schema_migrations").Scan(&version, &dirty)
	const undefinedTable = "42P01"
	if e, ok := errors.AsType[*pgconn.PgError](err); errors.Is(err, pgx.ErrNoRows) || ok && e.Code == undefinedTable {
		return database.NilVersion, false, nil
	}
	return version, dirty, err
}

// Close ends the connection.
func (d *driver) Close() error { return d.conn.Close(d.uninterrupted()) }

// Open and Drop are of golang-migrate's command line alone.
func (d *driver) Open(string) (database.Driver, error) { return nil, errors.ErrUnsupported }

func (d *driver) Drop() error { return errors.ErrUnsupported }
