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
	Location          string
	Version           int64
	Priority          int
	OrderKey          time.Time
	NotBefore         *time.Time
	StartDeadline     *time.Time
	RetryAt           *time.Time
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
	ContentsMissing   []string
	ContentsExcluded  []string
	Artifacts         []berth.Artifact
	Kinds             map[string]int
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
	// WorkersMaxBackups is told where the limit would let more run.
	WorkersMaxBackups *int
	PausedSince       *time.Time
	PausedUntil       *time.Time
	PauseReason       string
	PausedBy          string
	SeenAt            *time.Time
	NoWorkerSince     *time.Time
	NewSince          *time.Time
	FullSince         *time.Time
	LocationMessage   *string
	LocationReachedAt *time.Time
	Position          int
	OverlappingAhead  int
}

func (r backupRow) backup() (berth.Backup, error) {
	b := berth.Backup{
		ID: r.ID, Name: r.Name, Cluster: r.Cluster, Phase: berth.Phase(r.Phase), Reason: r.Reason, Message: r.Message,
		Labels: r.Labels, Annotations: r.Annotations, Version: r.Version,
		Priority: r.Priority, NotBefore: r.NotBefore, StartDeadline: r.StartDeadline,
		CreatedAt: r.CreatedAt, EnqueuedAt: r.EnqueuedAt, ReadyAt: r.ReadyAt, StartedAt: r.StartedAt,
		CompletedAt: r.CompletedAt, ExpiresAt: r.ExpiresAt,
		Namespaces: berth.Namespaces{All: r.Wide, Names: r.Names, Except: r.ExceptNames,
			Frozen: r.Contents, Missing: r.ContentsMissing, Excluded: r.ContentsExcluded},
		Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, Slot: r.Slot, Worker: r.Worker,
		Warnings: r.Warnings, Errors: r.Errors, ValidationErrors: r.ValidationErrors, FailureReason: r.FailureReason,
		Artifacts: r.Artifacts, Kinds: r.Kinds,
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
	default:
		blocker.Setting, blocker.Since = r.setting(blocker.Reason)
	}
	return blocker
}

// setting is what of the backup, its location or its cluster is in the way, and
// since when.
func (r backupRow) setting(reason berth.WaitReason) (setting string, since *time.Time) {
	switch reason {
	case berth.WaitNotBefore:
		return "notBefore=" + timestamp(*r.NotBefore), r.NewSince
	case berth.WaitBackOff:
		return "retryAt=" + timestamp(*r.RetryAt), r.NewSince
	case berth.WaitQueuePaused:
		pause := berth.Pause{Reason: r.PauseReason, By: r.PausedBy, Until: r.PausedUntil}
		return pause.String(), r.PausedSince
	case berth.WaitNoWorker:
		return "", r.NoWorkerSince
	case berth.WaitScopeUnresolvable:
		return "", r.EnqueuedAt
	case berth.WaitClusterUnreachable:
		return "", r.SeenAt
	case berth.WaitStorageUnavailable:
		return "storageLocation=" + r.Location, r.LocationReachedAt
	case berth.WaitNoFreeSlot:
		if r.WorkersMaxBackups != nil {
			return fmt.Sprintf("maxBackups=%d", *r.WorkersMaxBackups), r.FullSince
		}
		return fmt.Sprintf("concurrentBackups=%d", r.ConcurrentBackups), r.FullSince
	}
	return "", nil
}

func timestamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

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
	return s.backupWhere(ctx, "b.id = @id", pgx.NamedArgs{"id": id}, berth.MaxForecast)
}

// BackupNamed reads the backup of that name; CodeNotFound if the cluster has none.
func (s *Store) BackupNamed(ctx context.Context, cluster, name string) (berth.Backup, error) {
	return s.backupWhere(ctx, "b.cluster = @cluster AND b.name = @name", pgx.NamedArgs{"cluster": cluster, "name": name}, 0)
}

// backupWhere reads one backup and, where it is among the first so many, when it
// is predicted to start.
func (s *Store) backupWhere(ctx context.Context, condition string, args pgx.NamedArgs, within int) (berth.Backup, error) {
	one := make([]berth.Backup, 1)
	err := s.snapshot(ctx, func(tx *transaction) error {
		row, err := readBackup(ctx, tx, condition, args)
		if err != nil {
			return err
		}
		if one[0], err = row.backup(); err != nil {
			return err
		}
		return addETAs(ctx, tx, one, within)
	})
	if err != nil {
		return berth.Backup{}, err
	}
	return one[0], nil
}

func readBackup(ctx context.Context, q querier, condition string, args pgx.NamedArgs) (backupRow, error) {
	rows, err := q.Query(ctx, statement("backup")+" WHERE "+condition, args)
	if err != nil {
		return backupRow{}, fmt.Errorf("read the backup: %w", err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[backupRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return backupRow{}, berth.Errorf(berth.CodeNotFound, "there is no such backup")
	}
	if err != nil {
		return backupRow{}, fmt.Errorf("read the backup: %w", err)
	}
	return row, nil
}
