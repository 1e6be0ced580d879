package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// A limit has a row for each of its places. The greatest limit has 10,000 of
// them, which to write takes longer than a gate may be held: so those of a higher
// limit come before it, and those above a lower one go after it, some at a time.
// What a change that was cut short leaves above the limit is nobody's, and goes
// with the next change.

// closedAtOnce is how many places go in one transaction.
const closedAtOnce = 256

// openSlots makes the places of a limit that is to be.
func (s *Store) openSlots(ctx context.Context, clusterName string, change berth.SettingsChange) error {
	if change.ConcurrentBackups == nil {
		return nil
	}
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return border(err)
	}
	return s.ungated(ctx, func(tx *transaction) error {
		args := pgx.NamedArgs{"cluster_id": c.ID, "limit": *change.ConcurrentBackups, "if_version": change.IfVersion}
		if _, err := tx.Exec(ctx, statement("open_slots"), args); err != nil {
			return fmt.Errorf("open %d places of cluster %s: %w", *change.ConcurrentBackups, clusterName, err)
		}
		return nil
	})
}

// closeSlots takes away the places above the limit that nobody holds.
func (s *Store) closeSlots(ctx context.Context, clusterName string) error {
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return border(err)
	}
	for closed := closedAtOnce; closed == closedAtOnce; {
		err := s.gated(ctx, c.ID, func(tx *transaction) error {
			return tx.QueryRow(ctx, statement("close_slots"), pgx.NamedArgs{"cluster_id": c.ID, "most": closedAtOnce}).Scan(&closed)
		})
		if err != nil {
			return fmt.Errorf("close the places of cluster %s above its limit: %w", clusterName, err)
		}
	}
	return nil
}
