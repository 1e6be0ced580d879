// Package migrations holds the database's schema as golang-migrate files and
// applies them.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
)

//go:embed *.sql
var files embed.FS

// Files are the migrations, an up and a down file each.
func Files() fs.FS { return files }

// Latest is the version of the newest migration that this binary has.
const Latest = 5

// Up migrates the database to Latest, under golang-migrate's lock: of several
// processes that start at once, one does it and the others wait. A database
// that is newer already is left as it is; a dirty one is an error.
func Up(ctx context.Context, databaseURL string) error {
	return with(ctx, databaseURL, func(m *migrate.Migrate) error {
		if version, dirty, err := m.Version(); err == nil && version >= Latest && !dirty {
			return nil
		}
		return m.Up()
	})
}

// Down takes the last steps migrations back, all of them if steps is 0; where one
// fails, or refuses what the older schema cannot hold, none.
func Down(ctx context.Context, databaseURL string, steps int) error {
	return with(ctx, databaseURL, func(m *migrate.Migrate) error {
		if steps == 0 {
			return m.Down()
		}
		return m.Steps(-steps)
	})
}

// Version is that of the database: 0 before the first migration. A dirty
// database is one in which a tool that migrates by steps broke off.
func Version(ctx context.Context, databaseURL string) (version uint, dirty bool, err error) {
	err = with(ctx, databaseURL, func(m *migrate.Migrate) error {
		version, dirty, err = m.Version()
		if errors.Is(err, migrate.ErrNilVersion) {
			return nil
		}
		return err
	})
	return version, dirty, err
}

func with(ctx context.Context, databaseURL string, do func(*migrate.Migrate) error) (err error) {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return fmt.Errorf("read the database URL: %w", err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 5 * time.Second
	}
	source, err := iofs.New(files, ".")
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	driver, err := newDriver(ctx, config)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := driver.checkServer(); err != nil {
		return errors.Join(fmt.Errorf("migrate: %w", err), driver.Close())
	}
	m, err := migrate.NewWithInstance("iofs", source, "postgres", driver)
	if err != nil {
		return errors.Join(fmt.Errorf("prepare the migration: %w", err), driver.Close())
	}
	m.LockTimeout = math.MaxInt64 // ctx ends the wait
	defer func() {
		sourceErr, databaseErr := m.Close()
		err = errors.Join(err, sourceErr, databaseErr)
	}()
	err = do(m)
	if dirty, ok := errors.AsType[migrate.ErrDirty](err); ok {
		return BrokeOff(uint(dirty.Version))
	}
	if err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// BrokeOff says that the migration to that version did, and what to do.
func BrokeOff(version uint) error {
	return fmt.Errorf("the database's migration to version %d broke off: mend the schema by hand, set dirty to false in schema_migrations, then run: berth migrate up", version)
}
