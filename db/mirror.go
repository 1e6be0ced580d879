package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// LeadMirror takes or keeps the lead of a cluster's mirror for ttl from now,
// by the database's clock; false while another holder has it.
func (s *Store) LeadMirror(ctx context.Context, clusterName, holder string, ttl time.Duration) (bool, error) {
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return false, border(err)
	}
	leads := false
	err = s.ungated(ctx, func(tx *transaction) error {
		var term int64
		err := tx.QueryRow(ctx, statement("lead_mirror"), pgx.NamedArgs{"cluster_id": c.ID, "holder": holder, "ttl": ttl}).Scan(&term)
		if errors.Is(err, pgx.ErrNoRows) {
			leads = false
			return nil
		}
		leads = err == nil
		return err
	})
	if err != nil {
		return false, fmt.Errorf("lead the mirror of cluster %s: %w", clusterName, err)
	}
	return leads, nil
}

type mirrorRow struct {
	backupRow
	Through                     int64
	ObjectUID                   string
	HooksAttempted, HooksFailed int
}

// Mirrors reads at most limit backups whose object in the cluster is behind.
func (s *Store) Mirrors(ctx context.Context, clusterName string, limit int) ([]berth.Mirror, error) {
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return nil, border(err)
	}
	var found []mirrorRow
	err = s.snapshot(ctx, func(tx *transaction) error {
		rows, err := tx.Query(ctx, statement("mirrors"), pgx.NamedArgs{"cluster_id": c.ID, "limit": limit})
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByName[mirrorRow])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the mirror's outbox of cluster %s: %w", clusterName, err)
	}
	mirrors := make([]berth.Mirror, len(found))
	for i, row := range found {
		b, err := row.backup()
		if err != nil {
			return nil, err
		}
		if b.Progress != nil {
			b.Progress.HooksAttempted, b.Progress.HooksFailed = row.HooksAttempted, row.HooksFailed
		}
		mirrors[i] = berth.Mirror{Backup: b, Seq: row.Seq, ObjectUID: row.ObjectUID, Through: row.Through}
	}
	return mirrors, nil
}

// Mirrored says that the object with that uid shows what m shows.
func (s *Store) Mirrored(ctx context.Context, m berth.Mirror, uid string) error {
	position := 0
	if m.Backup.Queue != nil {
		position = m.Backup.Queue.Position
	}
	return s.ungated(ctx, func(tx *transaction) error {
		_, err := tx.Exec(ctx, statement("mirrored"), pgx.NamedArgs{
			"seq": m.Seq, "through": m.Through, "object_uid": uid, "position": position,
		})
		if err != nil {
			return fmt.Errorf("note that backup %s is mirrored: %w", m.Backup.Name, err)
		}
		return nil
	})
}
