package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// Renew says that a worker is alive and what it has room for, prolongs its leases
// by their TTL from now, by the database's clock, and tells which of the runs are
// no longer the worker's.
func (s *Store) Renew(ctx context.Context, h berth.Heartbeat) (lost []berth.Run, err error) {
	clusterID, err := s.clusterID(ctx, h.Cluster)
	if err != nil {
		return nil, err
	}
	seqs, fences := make([]int64, len(h.Held)), make([]int64, len(h.Held))
	for i, run := range h.Held {
		seqs[i], fences[i] = run.Seq, run.Fence
	}
	var renewed []int64
	err = s.ungated(ctx, func(tx *transaction) error {
		rows, err := tx.Query(ctx, statement("renew"), pgx.NamedArgs{
			"worker": h.Worker, "cluster_id": clusterID, "max_backups": h.MaxBackups, "ttl": h.LeaseTTL, "seqs": seqs, "fences": fences,
		})
		if err != nil {
			return fmt.Errorf("renew the leases of worker %s: %w", h.Worker, err)
		}
		if renewed, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
			return fmt.Errorf("renew the leases of worker %s: %w", h.Worker, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, run := range h.Held {
		if !slices.Contains(renewed, run.Seq) {
			lost = append(lost, run)
		}
	}
	return lost, nil
}

// Retire says that a worker is gone, in order.
func (s *Store) Retire(ctx context.Context, worker string) error {
	return s.ungated(ctx, func(tx *transaction) error {
		if _, err := tx.Exec(ctx, statement("retire_worker"), pgx.NamedArgs{"worker": worker}); err != nil {
			return fmt.Errorf("retire worker %s: %w", worker, err)
		}
		return nil
	})
}

// The back-off after the second lost lease; it doubles with each further one.
const (
	firstRetryBackoff = 30 * time.Second
	maxRetryBackoff   = 10 * time.Minute
)

// Reap takes the backups of every cluster whose lease ran out more than grace
// ago from their workers, and says how many there were: back into the queue at
// their old place with the next attempt, after a back-off from the second loss
// on, or Failed after the last one.
func (s *Store) Reap(ctx context.Context, grace time.Duration) (int, error) {
	rows, err := s.pool.Query(ctx, statement("expired_clusters"), pgx.NamedArgs{"grace": grace})
	if err != nil {
		return 0, border(fmt.Errorf("look for expired leases: %w", err))
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, border(fmt.Errorf("look for expired leases: %w", err))
	}
	total := 0
	var failed error // of one cluster, which keeps no other one waiting
	for _, name := range names {
		reaped, err := s.reapCluster(ctx, name, grace)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("reap cluster %s: %w", name, err))
		}
		total += reaped
	}
	return total, failed
}

func (s *Store) reapCluster(ctx context.Context, name string, grace time.Duration) (int, error) {
	return s.endAttempts(ctx, name, pgx.NamedArgs{"grace": grace, "reason": "LeaseLost", "message": "", "seq": 0, "fence": 0})
}

// GiveUp ends an attempt whose worker lives and cannot go on, since what it needs
// is away: the backup is tried again after a back-off, or has Failed after the
// last attempt. It counts as a lost lease does. The reason is a word, the message a
// sentence. ErrLeaseLost if the fence is no longer the backup's.
func (s *Store) GiveUp(ctx context.Context, run berth.Run, reason, message string) error {
	ended, err := s.endAttempts(ctx, run.Cluster, pgx.NamedArgs{
		"grace": time.Duration(0), "reason": reason, "message": message, "seq": run.Seq, "fence": run.Fence,
	})
	if err == nil && ended == 0 {
		err = berth.ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("give backup %s up: %w", run.Name, err)
	}
	return nil
}

// endAttempts ends attempts of a cluster that came to nothing and says how many.
func (s *Store) endAttempts(ctx context.Context, cluster string, args pgx.NamedArgs) (ended int, err error) {
	c, err := findCluster(ctx, s.pool, cluster)
	if err != nil {
		return 0, border(err)
	}
	args["cluster_id"], args["backoff"], args["max_backoff"] = c.ID, firstRetryBackoff, maxRetryBackoff
	err = s.gated(ctx, c.ID, func(tx *transaction) error {
		ended = 0
		rows, err := tx.Query(ctx, statement("reap"), args)
		if err != nil {
			return err
		}
		var back []queuedSpec
		var seq int64
		var phase berth.Phase
		var spec json.RawMessage
		if _, err := pgx.ForEachRow(rows, []any{&seq, &phase, &spec}, func() error {
			ended++
			if phase == berth.PhaseQueued {
				back = append(back, queuedSpec{Seq: seq, Spec: slices.Clone(spec)})
			}
			return nil
		}); err != nil {
			return err
		}
		// Namespaces that came or went while they ran count from now on.
		current, err := findCluster(ctx, tx, cluster)
		if err != nil {
			return err
		}
		return reclaim(ctx, tx, current, back)
	})
	return ended, err
}
