package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// extent is how much of a queue a snapshot has.
type extent struct {
	// Depth is the most queued backups that it has, Later the most that are not due.
	Depth, Later int
	// Through, if set, is the last of the queued ones, or one that is not due.
	Through *standing
}

type standing struct {
	Seq           int64
	ID            uuid.UUID
	Name          string
	Phase         berth.Phase
	OrderKey      time.Time
	Labels        map[string]string
	Location      string
	Included      []string
	Excluded      []string
	NotBefore     *time.Time
	RetryAt       *time.Time
	StartDeadline *time.Time
	Admitted      bool
	Slot          int
	ReadyAt       *time.Time
	Wide          bool
	Held          []string
}

func (s standing) standing() berth.Standing {
	scope, _ := berth.ScopeOf(s.Included, s.Excluded)
	b := berth.Standing{
		ID: s.ID, Name: s.Name, Seq: s.Seq, Phase: s.Phase, OrderKey: s.OrderKey, Scope: scope, Location: s.Location,
		NotBefore: s.NotBefore, RetryAt: s.RetryAt, StartDeadline: s.StartDeadline, Admitted: s.Admitted, Slot: s.Slot, StartedAt: s.ReadyAt,
		RunKey: runKey(s.Labels, s.Included, s.Excluded),
	}
	if s.Slot > 0 {
		b.Held = &berth.Claim{All: s.Wide, Names: s.Held}
	}
	return b
}

func runKey(labels map[string]string, included, excluded []string) berth.RunKey {
	return berth.RunKeyOf(labels, berth.Spec{IncludedNamespaces: included, ExcludedNamespaces: excluded})
}

// queueSnapshot reads what admission decides on, for the planner. tx is one
// snapshot of the database.
func queueSnapshot(ctx context.Context, tx *transaction, c cluster, e extent) (berth.Snapshot, error) {
	s, err := readConditions(ctx, tx, c)
	if err != nil {
		return s, err
	}
	known, err := namespaces(ctx, tx, c, wanted{everyone: true})
	if err != nil {
		return s, err
	}
	s.Namespaces = newDictionary(known, c.Synced).inventory
	args := pgx.NamedArgs{"cluster_id": c.ID, "depth": e.Depth, "later": e.Later, "through_key": nil, "through_seq": nil}
	if e.Through != nil {
		args["through_key"], args["through_seq"] = e.Through.OrderKey, e.Through.Seq
	}
	rows, err := tx.Query(ctx, statement("standings"), args)
	if err != nil {
		return s, fmt.Errorf("read the queue of cluster %s: %w", c.Name, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[standing])
	if err != nil {
		return s, fmt.Errorf("read the queue of cluster %s: %w", c.Name, err)
	}
	s.Backups = make([]berth.Standing, len(found))
	for i, b := range found {
		s.Backups[i] = b.standing()
	}
	return s, nil
}

type conditionsRow struct {
	At                time.Time
	ConcurrentBackups int
	Paused            bool
	PauseReason       string
	PausedBy          string
	PausedSince       *time.Time
	PausedUntil       *time.Time
	HasWorker         bool
	WorkersMaxBackups *int
	WorkersRoom       *int
	Reachable         bool
	Synced            bool
	Unavailable       []string
}

func readConditions(ctx context.Context, tx *transaction, c cluster) (berth.Snapshot, error) {
	rows, err := tx.Query(ctx, statement("conditions"), pgx.NamedArgs{"cluster_id": c.ID})
	if err != nil {
		return berth.Snapshot{}, fmt.Errorf("read the conditions of cluster %s: %w", c.Name, err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[conditionsRow])
	if err != nil {
		return berth.Snapshot{}, fmt.Errorf("read the conditions of cluster %s: %w", c.Name, err)
	}
	s := berth.Snapshot{
		At: r.At, ConcurrentBackups: r.ConcurrentBackups, HasWorker: r.HasWorker, Reachable: r.Reachable, Synced: r.Synced,
		Unavailable: map[string]bool{},
	}
	if r.WorkersMaxBackups != nil {
		s.Workers = &berth.WorkerRoom{MaxBackups: *r.WorkersMaxBackups, Free: *r.WorkersRoom}
	}
	for _, name := range r.Unavailable {
		s.Unavailable[name] = true
	}
	if r.Paused {
		s.Paused = &berth.Pause{Reason: r.PauseReason, By: r.PausedBy, Since: *r.PausedSince, Until: r.PausedUntil}
	}
	return s, nil
}

type pastRunRow struct {
	Labels   map[string]string
	Seconds  float64
	Included []string
	Excluded []string
}

// history reads the last 1,000 runs of a cluster that ended with an archive.
func history(ctx context.Context, tx *transaction, c cluster) (berth.History, error) {
	rows, err := tx.Query(ctx, statement("past_runs"), pgx.NamedArgs{"cluster_id": c.ID})
	if err != nil {
		return nil, fmt.Errorf("read the past runs of cluster %s: %w", c.Name, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[pastRunRow])
	if err != nil {
		return nil, fmt.Errorf("read the past runs of cluster %s: %w", c.Name, err)
	}
	h := make(berth.History, len(found))
	for i, r := range found {
		h[i] = berth.PastRun{RunKey: runKey(r.Labels, r.Included, r.Excluded), Took: time.Duration(r.Seconds * float64(time.Second))}
	}
	return h, nil
}
