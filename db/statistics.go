package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Analyze has Postgres learn what the queue's tables hold, unless it knows or they
// hold next to nothing. Of a table that was never analyzed it may read all rows
// where an index on few would do; autovacuum comes to a new database within minutes
// only, while thousands of backups may be asked for at once. Done says that nothing
// is left to do: autovacuum follows what changes from then on.
func (s *Store) Analyze(ctx context.Context) (done bool, err error) {
	var known, worthKnowing bool
	if err := s.pool.QueryRow(ctx, statement("statistics")).Scan(&known, &worthKnowing); err != nil {
		return false, border(fmt.Errorf("read what Postgres knows of the queue: %w", err))
	}
	if known || !worthKnowing {
		return known, nil
	}
	// Whoever has a table locked analyzes it, or keeps it busy.
	if _, err := s.pool.Exec(ctx, "ANALYZE (SKIP_LOCKED) backups, claims, namespaces", pgx.QueryExecModeSimpleProtocol); err != nil {
		return false, border(fmt.Errorf("analyze the queue: %w", err))
	}
	return true, nil
}
