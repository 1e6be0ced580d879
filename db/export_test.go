package db

import (
	"context"
	"maps"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// Statements are the embedded statements by name, for the test that prepares each.
func Statements() map[string]string { return maps.Clone(statements) }

// BeginSerializable begins a transaction as a dequeue does.
const BeginSerializable = beginSerializable

// Begins are all the ways in which the store begins a transaction.
var Begins = []string{beginSerializable, beginCommitted, beginSnapshot}

// Gates is the number of dispatch gates.
const Gates = gates

// The lists' cursors, for the fuzzer.
var (
	EncodeCursor = encodeCursor
	DecodeCursor = decodeCursor
)

// Unguard takes away what keeps transactions on one queue apart: the gate and
// SERIALIZABLE.
func (s *Store) Unguard() { s.apart = apart{dequeue: beginCommitted} }

// ReleaseStaleWatchers does what a dequeue begins with where somebody left, until
// nothing is left of it.
func (s *Store) ReleaseStaleWatchers(ctx context.Context, clusterName string) error {
	id, err := s.clusterID(ctx, clusterName)
	for more := err == nil; more; {
		if more, err = s.releaseStaleWatchers(ctx, id); err != nil {
			return err
		}
	}
	return err
}

// CollectBackups reads what the statement "running" gives, as the store does.
var CollectBackups = collectBackups

// CollectWaiting reads what the statement "waiting" gives, as the store does.
func CollectWaiting(rows pgx.Rows) ([]berth.Backup, error) {
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[waitingRow])
	if err != nil {
		return nil, err
	}
	backups := make([]berth.Backup, len(found))
	for i, row := range found {
		if backups[i], err = row.backup(); err != nil {
			return nil, err
		}
	}
	return backups, nil
}

// OnConnection reads one value on one of the store's connections.
func (s *Store) OnConnection(ctx context.Context, sql string, into any) error {
	return s.pool.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol).Scan(into)
}

// Foreseen is how many backups a prediction of a cluster's queue counts with.
func (s *Store) Foreseen(ctx context.Context, clusterName string) (n int, err error) {
	err = s.snapshot(ctx, func(tx *transaction) error {
		c, err := findCluster(ctx, tx, clusterName)
		if err != nil {
			return err
		}
		queue, _, err := foresee(ctx, tx, c, berth.MaxForecast)
		n = len(queue.Backups)
		return err
	})
	return n, err
}
