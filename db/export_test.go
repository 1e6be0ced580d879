package db

import (
	"maps"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// Statements are the embedded statements by name, for the test that prepares each.
func Statements() map[string]string { return maps.Clone(statements) }

// BeginCommitted begins a transaction as the store does.
const BeginCommitted = beginCommitted

// Gates is the number of dispatch gates.
const Gates = gates

// The lists' cursors, for the fuzzer.
var (
	EncodeCursor = encodeCursor
	DecodeCursor = decodeCursor
)

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
