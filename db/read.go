package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// backupRow is the part of backup_rows that readers get, with its place.
type backupRow struct {
	Seq               int64
	ID                uuid.UUID
	ClusterID         int32
	Cluster           string
	Name              string
	Phase             string
	Reason            string
	Message           string
	Labels            map[string]string
	Annotations       map[string]string
	Spec              json.RawMessage
	Version           int64
	OrderKey          time.Time
	CreatedAt         time.Time
	EnqueuedAt        *time.Time
	ReadyAt           *time.Time
	StartedAt         *time.Time
	CompletedAt       *time.Time
	ExpiresAt         *time.Time
	Wide              bool
	Names             []string
	ExceptNames       []string
	Contents          []string
	Attempt           int
	MaxAttempts       int
	Slot              *int
	Worker            string
	Warnings          int
	Errors            int
	ValidationErrors  []string
	FailureReason     string
	ItemsBackedUp     *int
	TotalItems        *int
	Bytes             *int64
	ProgressAt        *time.Time
	BlockerID         *uuid.UUID
	BlockerName       *string
	BlockerNamespaces []string
	WaitReason        string
	WaitingSince      *time.Time
	ConcurrentBackups int
	Position          int
	OverlappingAhead  int
}

func (r backupRow) backup() (berth.Backup, error) {
	b := berth.Backup{
		ID: r.ID, Name: r.Name, Cluster: r.Cluster, Phase: berth.Phase(r.Phase), Reason: r.Reason, Message: r.Message,
		Labels: r.Labels, Annotations: r.Annotations, Version: r.Version,
		CreatedAt: r.CreatedAt, EnqueuedAt: r.EnqueuedAt, ReadyAt: r.ReadyAt, StartedAt: r.StartedAt,
		CompletedAt: r.CompletedAt, ExpiresAt: r.ExpiresAt,
		Namespaces: berth.Namespaces{All: r.Wide, Names: r.Names, Except: r.ExceptNames, Frozen: r.Contents},
		Attempt:    r.Attempt, MaxAttempts: r.MaxAttempts, Slot: r.Slot, Worker: r.Worker,
		Warnings: r.Warnings, Errors: r.Errors, ValidationErrors: r.ValidationErrors, FailureReason: r.FailureReason,
	}
	if err := json.Unmarshal(r.Spec, &b.Spec); err != nil {
		return b, fmt.Errorf("read the spec of backup %s: %w", r.Name, err)
	}
	if r.ProgressAt != nil {
		b.Progress = &berth.Progress{ItemsBackedUp: *r.ItemsBackedUp, TotalItems: *r.TotalItems, Bytes: *r.Bytes, UpdatedAt: *r.ProgressAt}
	}
	if b.Phase.Waiting() {
		b.Queue = &berth.QueueEntry{Position: r.Position, OverlappingAhead: r.OverlappingAhead, BlockedBy: []berth.Blocker{r.blocker()}}
	}
	return b, nil
}

func (r backupRow) blocker() berth.Blocker {
	blocker := berth.Blocker{Reason: berth.WaitReason(r.WaitReason)}
	switch blocker.Reason {
	case berth.WaitRunningOverlap, berth.WaitEarlierQueuedOverlap:
		blocker.Backup = &berth.BackupRef{ID: *r.BlockerID, Name: *r.BlockerName}
		blocker.Namespaces = r.BlockerNamespaces
		blocker.Since = r.WaitingSince
	case berth.WaitNoFreeSlot:
		blocker.Setting = fmt.Sprintf("concurrentBackups=%d", r.ConcurrentBackups)
	}
	return blocker
}

func collectBackups(rows pgx.Rows) ([]berth.Backup, error) {
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[backupRow])
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

// Backup reads one backup; CodeNotFound if there is none of that id.
func (s *Store) Backup(ctx context.Context, id uuid.UUID) (berth.Backup, error) {
	return s.backupWhere(ctx, "b.id = @id", pgx.NamedArgs{"id": id})
}

func (s *Store) backupWhere(ctx context.Context, condition string, args pgx.NamedArgs) (berth.Backup, error) {
	rows, err := s.pool.Query(ctx, statement("backup")+" WHERE "+condition, args)
	if err != nil {
		return berth.Backup{}, border(fmt.Errorf("read the backup: %w", err))
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[backupRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return berth.Backup{}, berth.Errorf(berth.CodeNotFound, "there is no such backup")
	}
	if err != nil {
		return berth.Backup{}, border(fmt.Errorf("read the backup: %w", err))
	}
	return row.backup()
}

// Queue reads a cluster's queue at one instant; CodeNotFound if there is no
// such cluster.
func (s *Store) Queue(ctx context.Context, clusterName string) (berth.Queue, error) {
	var q berth.Queue
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		c, err := findCluster(ctx, tx, clusterName)
		if err != nil {
			return err
		}
		q = berth.Queue{Cluster: clusterName, ConcurrentBackups: c.ConcurrentBackups}
		args := pgx.NamedArgs{"cluster_id": c.ID}
		if err := tx.QueryRow(ctx, statement("queue_version"), args).Scan(&q.ComputedAt, &q.Version); err != nil {
			return err
		}
		for name, into := range map[string]*[]berth.Backup{"running": &q.Running, "waiting": &q.Waiting} {
			rows, err := tx.Query(ctx, statement(name), args)
			if err != nil {
				return err
			}
			if *into, err = collectBackups(rows); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return berth.Queue{}, fmt.Errorf("read the queue of cluster %s: %w", clusterName, err)
	}
	return q, nil
}
