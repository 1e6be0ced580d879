package db

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// everything is deeper than any queue.
const everything = 1 << 30

// Explain tells all that is in the way of a backup, at one instant. CodeNotFound
// if there is none of that id.
func (s *Store) Explain(ctx context.Context, id uuid.UUID) (berth.Explained, error) {
	var explained berth.Explained
	err := s.snapshot(ctx, func(tx *transaction) error {
		row, err := readBackup(ctx, tx, "b.id = @id", pgx.NamedArgs{"id": id})
		if err != nil {
			return err
		}
		found, err := row.backup()
		if err != nil {
			return err
		}
		one := []berth.Backup{found}
		if err := addETAs(ctx, tx, one, berth.MaxForecast); err != nil {
			return err
		}
		explained = berth.Explained{Backup: one[0]}
		c, err := findCluster(ctx, tx, row.Cluster)
		if err != nil {
			return err
		}
		// Who is behind it is not in its way; one whose time has come counts as queued.
		ahead := extent{Depth: everything, Later: maxLater, Through: &standing{OrderKey: row.OrderKey, Seq: row.Seq}}
		if !found.Phase.Waiting() {
			ahead = extent{}
		}
		queue, err := queueSnapshot(ctx, tx, c, ahead)
		if err != nil {
			return err
		}
		explained.ComputedAt = queue.At
		if e, waits := queue.Explain(id); waits {
			explained.Blockers = atMost(e.Blockers, berth.MaxOverlapping)
			explained.Chain = e.Chain[:min(len(e.Chain), berth.MaxOverlapping)]
		}
		since(explained.Blockers, row)
		return nil
	})
	if err != nil {
		return berth.Explained{}, fmt.Errorf("explain backup %s: %w", id, err)
	}
	return explained, nil
}

// atMost leaves out of the backups in the way all but the first so many.
func atMost(blockers []berth.Blocker, most int) []berth.Blocker {
	kept := blockers[:0:0]
	backups := 0
	for _, b := range blockers {
		if b.Backup != nil {
			if backups++; backups > most {
				continue
			}
		}
		kept = append(kept, b)
	}
	return kept
}

// since adds to what is in the way since when it is, where somebody recorded it:
// for a setting the row tells, for a backup only of the witness.
func since(blockers []berth.Blocker, row backupRow) {
	for i, b := range blockers {
		switch {
		case b.Backup == nil:
			_, blockers[i].Since = row.setting(b.Reason)
		case row.BlockerID != nil && *row.BlockerID == b.Backup.ID:
			blockers[i].Since = row.WaitingSince
		}
	}
}
