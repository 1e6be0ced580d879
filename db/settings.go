package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

type settingsRow struct {
	Cluster              string
	ConcurrentBackups    int
	ItemBlockWorkerCount int
	MaxQueued            *int
	Version              int64
	PausedSince          *time.Time
	PausedUntil          *time.Time
	PauseReason          string
	PausedBy             string
	Paused               bool
}

func (r settingsRow) settings() berth.QueueSettings {
	s := berth.QueueSettings{
		Cluster: r.Cluster, ConcurrentBackups: r.ConcurrentBackups, ItemBlockWorkerCount: r.ItemBlockWorkerCount, Version: r.Version,
	}
	if r.MaxQueued != nil {
		s.MaxQueued = *r.MaxQueued
	}
	if r.Paused {
		s.Paused = &berth.Pause{Reason: r.PauseReason, By: r.PausedBy, Since: *r.PausedSince, Until: r.PausedUntil}
	}
	return s
}

// Settings reads a cluster's limits and its pause; CodeNotFound if there is no
// such cluster.
func (s *Store) Settings(ctx context.Context, clusterName string) (berth.QueueSettings, error) {
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return berth.QueueSettings{}, border(err)
	}
	settings, err := readSettings(ctx, s.pool, c)
	return settings, border(err)
}

func readSettings(ctx context.Context, q querier, c cluster) (berth.QueueSettings, error) {
	rows, err := q.Query(ctx, statement("settings"), pgx.NamedArgs{"cluster_id": c.ID})
	if err != nil {
		return berth.QueueSettings{}, fmt.Errorf("read the settings of cluster %s: %w", c.Name, err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[settingsRow])
	if err != nil {
		return berth.QueueSettings{}, fmt.Errorf("read the settings of cluster %s: %w", c.Name, err)
	}
	return row.settings(), nil
}

// ChangeSettings changes a cluster's limits and gives them as they then are.
// Lowering concurrentBackups stops no backup and admits none above the new
// limit. Errors: CodeNotFound, CodeValidationFailed, CodePreconditionFailed.
func (s *Store) ChangeSettings(ctx context.Context, clusterName string, change berth.SettingsChange) (berth.QueueSettings, error) {
	if problems := change.Validate(); problems != nil {
		return berth.QueueSettings{}, &berth.Error{Code: berth.CodeValidationFailed, Detail: "the settings cannot be as asked for", Fields: problems}
	}
	if err := s.openSlots(ctx, clusterName, change); err != nil {
		return berth.QueueSettings{}, err
	}
	settings, err := s.gatedSettings(ctx, clusterName, func(tx *transaction, c cluster) error {
		var maxQueued *int
		if change.MaxQueued != nil && *change.MaxQueued > 0 {
			maxQueued = change.MaxQueued
		}
		var found, notified int
		err := tx.QueryRow(ctx, statement("change_settings"), pgx.NamedArgs{
			"cluster_id": c.ID, "if_version": change.IfVersion,
			"concurrent_backups": change.ConcurrentBackups, "item_block_worker_count": change.ItemBlockWorkerCount,
			"edits_max_queued": change.MaxQueued != nil, "max_queued": maxQueued,
		}).Scan(&found, &notified)
		if err == nil && found == 0 {
			return berth.Errorf(berth.CodePreconditionFailed, "the settings of cluster %q are not those that the change was made for", clusterName)
		}
		return err
	})
	if err != nil {
		return settings, err
	}
	return settings, s.closeSlots(ctx, clusterName)
}

// SetConcurrentBackups changes how many backups of a cluster may run at once.
func (s *Store) SetConcurrentBackups(ctx context.Context, clusterName string, limit int) error {
	_, err := s.ChangeSettings(ctx, clusterName, berth.SettingsChange{ConcurrentBackups: &limit})
	return err
}

// Pause admits nothing of a cluster from now on; what runs goes on. To pause a
// paused queue changes the reason, who and until when.
func (s *Store) Pause(ctx context.Context, clusterName string, p berth.PauseRequest) (berth.QueueSettings, error) {
	return s.gatedSettings(ctx, clusterName, func(tx *transaction, c cluster) error {
		_, err := tx.Exec(ctx, statement("pause"), pgx.NamedArgs{"cluster_id": c.ID, "reason": p.Reason, "by": p.By, "until": p.Until})
		return err
	})
}

// Resume admits a cluster's backups again. One that is not paused stays as it is.
func (s *Store) Resume(ctx context.Context, clusterName, by string) (berth.QueueSettings, error) {
	return s.gatedSettings(ctx, clusterName, func(tx *transaction, c cluster) error {
		_, err := tx.Exec(ctx, statement("resume"), pgx.NamedArgs{"cluster_id": c.ID, "by": by})
		return err
	})
}

// gatedSettings changes a cluster behind its gate and reads what it then is.
func (s *Store) gatedSettings(ctx context.Context, clusterName string, change func(*transaction, cluster) error) (settings berth.QueueSettings, err error) {
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return settings, border(err)
	}
	err = s.gated(ctx, c.ID, func(tx *transaction) error {
		if err := change(tx, c); err != nil {
			return err
		}
		settings, err = readSettings(ctx, tx, c)
		return err
	})
	if err != nil {
		return settings, fmt.Errorf("change the settings of cluster %s: %w", clusterName, err)
	}
	return settings, nil
}
