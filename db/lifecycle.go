package db

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// Start makes an admitted backup InProgress. As Finalize and Finish, it may be
// tried again where its answer was lost: it has then been made. ErrLeaseLost if the fence is no
// longer the backup's.
func (s *Store) Start(ctx context.Context, run berth.Run) error {
	return s.fenced(ctx, "start", "start", run, berth.PhaseInProgress, pgx.NamedArgs{})
}

// Finalize makes a backup Finalizing, or FinalizingPartiallyFailed if it counts
// an error. ErrLeaseLost if the fence is no longer the backup's.
func (s *Store) Finalize(ctx context.Context, run berth.Run, outcome berth.Outcome) error {
	phase := berth.PhaseFinalizing
	if outcome.Errors > 0 {
		phase = berth.PhaseFinalizingPartiallyFailed
	}
	artifacts, err := json.Marshal(append([]berth.Artifact{}, outcome.Artifacts...))
	if err != nil {
		return fmt.Errorf("finalize backup %s: %w", run.Name, err)
	}
	kinds := outcome.Kinds
	if kinds == nil {
		kinds = map[string]int{}
	}
	return s.fenced(ctx, "finalize", "finalize", run, phase, pgx.NamedArgs{
		"artifacts": artifacts, "kinds": kinds,
		"phase": phase, "warnings": outcome.Warnings, "errors": outcome.Errors,
		"items": outcome.Progress.ItemsBackedUp, "total": outcome.Progress.TotalItems, "bytes": outcome.Progress.Bytes,
		"hooks_attempted": outcome.Progress.HooksAttempted, "hooks_failed": outcome.Progress.HooksFailed,
	})
}

// fenced runs a transition of a running backup's that needs no gate. to is the
// phase that it leads to; empty for none.
func (s *Store) fenced(ctx context.Context, what, name string, run berth.Run, to berth.Phase, args pgx.NamedArgs) error {
	args["seq"], args["fence"] = run.Seq, run.Fence
	return s.ungated(ctx, func(tx *transaction) error {
		tag, err := tx.Exec(ctx, statement(name), args)
		if err == nil && tag.RowsAffected() == 0 {
			err = madeBefore(ctx, tx, run, to)
		}
		if err != nil {
			return fmt.Errorf("%s backup %s: %w", what, run.Name, err)
		}
		return nil
	})
}

// madeBefore is nil where the run's own fence has made its transition to a phase
// already: the answer was lost, and somebody tries again. Else the lease is.
func madeBefore(ctx context.Context, q querier, run berth.Run, to berth.Phase) error {
	var phase berth.Phase
	err := q.QueryRow(ctx, statement("phase_of"), pgx.NamedArgs{"seq": run.Seq, "fence": run.Fence}).Scan(&phase)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && phase != to:
		return berth.ErrLeaseLost
	}
	return err
}

// Finish ends a running backup with a terminal phase: slot, claims and lease
// are free and those that waited for it are looked at again. ErrLeaseLost if
// the fence is no longer the backup's; an error where the phase is not terminal.
func (s *Store) Finish(ctx context.Context, run berth.Run, outcome berth.Outcome) error {
	if !outcome.Phase.Terminal() {
		return fmt.Errorf("finish backup %s: %q is not a terminal phase", run.Name, outcome.Phase)
	}
	var from []string
	for _, phase := range berth.Phases() {
		if phase.Running() && phase.CanBecome(outcome.Phase) {
			from = append(from, string(phase))
		}
	}
	clusterID, err := s.clusterID(ctx, run.Cluster)
	if err != nil {
		return err
	}
	err = s.gated(ctx, clusterID, func(tx *transaction) error {
		var seq int64
		var notified string
		err := tx.last(ctx, statement("leave"), pgx.NamedArgs{
			"seq": run.Seq, "fence": run.Fence, "from": from, "phase": outcome.Phase,
			"reason": cmp.Or(outcome.Reason, string(outcome.Phase)), "message": outcome.Message,
			"warnings": outcome.Warnings, "errors": outcome.Errors,
			"validation_errors": append([]string{}, outcome.ValidationErrors...), "failure_reason": outcome.FailureReason,
		}, &seq, &notified)
		if errors.Is(err, pgx.ErrNoRows) {
			return madeBefore(ctx, tx, run, outcome.Phase)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("finish backup %s: %w", run.Name, err)
	}
	return nil
}

// Release gives a running backup back to the queue at its old place, without
// costing it an attempt: the worker is going away in order. ErrLeaseLost if the
// fence is no longer the backup's.
func (s *Store) Release(ctx context.Context, run berth.Run, message string) error {
	clusterID, err := s.clusterID(ctx, run.Cluster)
	if err != nil {
		return err
	}
	return s.gated(ctx, clusterID, func(tx *transaction) error {
		var back queuedSpec
		var phase berth.Phase
		var notified string
		err := tx.QueryRow(ctx, statement("release"), pgx.NamedArgs{"seq": run.Seq, "fence": run.Fence, "message": message}).
			Scan(&back.Seq, &phase, &back.Spec, &notified)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("release backup %s: %w", run.Name, berth.ErrLeaseLost)
		}
		if err != nil {
			return fmt.Errorf("release backup %s: %w", run.Name, err)
		}
		if phase != berth.PhaseQueued {
			return nil
		}
		// Namespaces that came or went while it ran count from now on.
		current, err := findCluster(ctx, tx, run.Cluster)
		if err != nil {
			return err
		}
		return reclaim(ctx, tx, current, []queuedSpec{back})
	})
}

// Progress writes how far a running backup has come. ErrLeaseLost if the fence
// is no longer the backup's.
func (s *Store) Progress(ctx context.Context, run berth.Run, p berth.Progress) error {
	return s.fenced(ctx, "report progress of", "progress", run, "", pgx.NamedArgs{
		"items": p.ItemsBackedUp, "total": p.TotalItems, "bytes": p.Bytes,
	})
}
