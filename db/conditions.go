package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// Seen says that a cluster's API answered just now: its namespaces are as they
// were last written. From the first time on, backups whose claims depend on
// namespaces that nobody named are not admitted when it was silent for a minute.
func (s *Store) Seen(ctx context.Context, clusterName string) error {
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return border(err)
	}
	return s.ungated(ctx, func(tx *transaction) error {
		if _, err := tx.Exec(ctx, statement("seen"), pgx.NamedArgs{"cluster_id": c.ID}); err != nil {
			return fmt.Errorf("note that cluster %s answered: %w", clusterName, err)
		}
		return nil
	})
}

// SetLocationAvailable says whether a storage location answers, and why not.
// Backups that go to one that does not wait; those of other locations pass them.
func (s *Store) SetLocationAvailable(ctx context.Context, clusterName, name string, available bool, message string) error {
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return border(err)
	}
	return s.ungated(ctx, func(tx *transaction) error {
		var found, notified int
		err := tx.QueryRow(ctx, statement("location_available"), pgx.NamedArgs{
			"cluster_id": c.ID, "name": name, "available": available, "message": message,
		}).Scan(&found, &notified)
		if err != nil {
			return fmt.Errorf("note whether storage location %s answers: %w", name, err)
		}
		if found == 0 {
			return berth.Errorf(berth.CodeNotFound, "there is no storage location %q", name)
		}
		return nil
	})
}

// turn does what the clock or somebody's silence brought about: a pause that is
// over, workers that are gone or back, start deadlines that passed, New backups
// whose time has come, and claims that whoever changed the namespaces left. One
// gated transaction for at most 256 of each, and amendBudget claims.
func (s *Store) turn(ctx context.Context, clusterID int32, name string) error {
	return s.gated(ctx, clusterID, func(tx *transaction) error {
		c := cluster{ID: clusterID, Name: name}
		if _, err := tx.Exec(ctx, statement("note_conditions"), pgx.NamedArgs{"cluster_id": c.ID}); err != nil {
			return fmt.Errorf("note the conditions of cluster %s: %w", c.Name, err)
		}
		if err := giveUpOverdue(ctx, tx, c); err != nil {
			return err
		}
		if err := fallDue(ctx, tx, c); err != nil {
			return err
		}
		_, err := amend(ctx, tx, c.Name)
		return err
	})
}

// giveUpOverdue fails the waiting backups whose start deadline passed.
func giveUpOverdue(ctx context.Context, tx *transaction, c cluster) error {
	rows, err := tx.Query(ctx, statement("overdue"), pgx.NamedArgs{"cluster_id": c.ID})
	if err != nil {
		return fmt.Errorf("find start deadlines that passed: %w", err)
	}
	overdue, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return fmt.Errorf("find start deadlines that passed: %w", err)
	}
	if len(overdue) == 0 {
		return nil
	}
	return giveUp(ctx, tx, overdue, berth.PhaseFailed, reasonStartDeadline, "it was not admitted by its start deadline")
}

const reasonStartDeadline = "StartDeadlineExceeded"

// giveUp ends waiting backups. The caller has the gate.
func giveUp(ctx context.Context, tx *transaction, seqs []int64, phase berth.Phase, reason, message string) error {
	failureReason := ""
	if phase == berth.PhaseFailed {
		failureReason = reason + ": " + message
	}
	var ended, notified int
	err := tx.QueryRow(ctx, statement("give_up"), pgx.NamedArgs{
		"seqs": seqs, "phase": phase, "reason": reason, "message": message, "failure_reason": failureReason,
	}).Scan(&ended, &notified)
	if err != nil {
		return fmt.Errorf("end %d waiting backups: %w", len(seqs), err)
	}
	return nil
}

// fallDue puts New backups whose time has come into the queue, with the claims
// that their scopes have now. The caller has the gate, and so nobody has the
// inventory's exclusive lock.
func fallDue(ctx context.Context, tx *transaction, c cluster) error {
	rows, err := tx.Query(ctx, statement("fall_due"), pgx.NamedArgs{"cluster_id": c.ID})
	if err != nil {
		return fmt.Errorf("queue what is due: %w", err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByName[queuedSpec])
	if err != nil {
		return fmt.Errorf("queue what is due: %w", err)
	}
	if len(due) == 0 {
		return nil
	}
	current, err := findCluster(ctx, tx, c.Name)
	if err != nil {
		return err
	}
	return reclaim(ctx, tx, current, due)
}
