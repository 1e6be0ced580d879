package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// Retry puts a backup that ended Failed, PartiallyFailed or Canceled at the end
// of the queue again, with the next attempt. As an enqueue it needs no gate.
// Errors: CodeNotFound, CodeStateConflict, CodeQueueFull.
func (s *Store) Retry(ctx context.Context, id uuid.UUID, who string) (berth.Backup, error) {
	err := s.ungated(ctx, func(tx *transaction) error {
		b, err := findPlace(ctx, tx, id)
		if err != nil {
			return err
		}
		c, err := findCluster(ctx, tx, b.Cluster)
		if err != nil {
			return err
		}
		if err := leaveRoom(ctx, tx, c, 1); err != nil {
			return err
		}
		scope, err := queuedSpec{Seq: b.Seq, Spec: b.Spec}.scope()
		if err != nil {
			return err
		}
		c, claims, err := claimInto(ctx, tx, c, []berth.Scope{scope})
		if err != nil {
			return err
		}
		var seq int64
		var notified string
		err = tx.QueryRow(ctx, statement("retry"), pgx.NamedArgs{
			"seq": b.Seq, "message": by("tried again", who), "inventory_version": c.InventoryVersion,
			"resolved": claims[0].Resolved, "namespace_ids": claims[0].NamespaceIDs, "left_out": claims[0].LeftOut,
		}).Scan(&seq, &notified)
		if errors.Is(err, pgx.ErrNoRows) {
			return stateConflict(b, "cannot be tried again: only a Failed, PartiallyFailed or Canceled backup can")
		}
		return err
	})
	if err != nil {
		return berth.Backup{}, fmt.Errorf("retry backup %s: %w", id, err)
	}
	return s.Backup(ctx, id)
}
