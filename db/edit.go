package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// Edit changes a waiting backup's priority, the instant that it waits for or its
// start deadline, and gives it as it then is. It takes the gate first: the place
// in the queue moves. Errors: CodeNotFound, CodeValidationFailed,
// CodeStateConflict where the backup does not wait any more.
func (s *Store) Edit(ctx context.Context, id uuid.UUID, e berth.Edit) (berth.Backup, error) {
	if problems := e.Validate(); problems != nil {
		return berth.Backup{}, &berth.Error{Code: berth.CodeValidationFailed, Detail: "the backup cannot be as asked for", Fields: problems}
	}
	return s.changeWaiting(ctx, id, func(tx pgx.Tx, b place) error {
		args := pgx.NamedArgs{
			"seq": b.Seq, "message": by("edited", e.By), "priority": e.Priority,
			"edits_not_before": e.NotBefore != nil, "not_before": nil, "edits_start_deadline": e.StartDeadline != nil, "start_deadline": nil,
		}
		if e.NotBefore != nil && !e.NotBefore.IsZero() {
			args["not_before"] = *e.NotBefore
		}
		if e.StartDeadline != nil && !e.StartDeadline.IsZero() {
			args["start_deadline"] = *e.StartDeadline
		}
		var edited queuedSpec
		var phase berth.Phase
		var never bool
		var notified *string
		err := tx.QueryRow(ctx, statement("edit"), args).Scan(&edited.Seq, &phase, &edited.Spec, &never, &notified)
		if errors.Is(err, pgx.ErrNoRows) {
			return stateConflict(b, "does not wait any more: only a waiting backup can be edited")
		}
		if err == nil && never {
			return &berth.Error{Code: berth.CodeValidationFailed, Detail: "the backup cannot be as asked for", Fields: []berth.FieldError{
				{Pointer: "/startDeadline", Code: "conflict", Detail: "startDeadline must be later than the backup's notBefore"},
			}}
		}
		if err != nil || phase != berth.PhaseQueued {
			return err
		}
		// It was New and is due at once, or it comes before others whose claims
		// are amended already.
		current, err := findCluster(ctx, tx, b.Cluster)
		if err != nil {
			return err
		}
		return reclaim(ctx, tx, current, []queuedSpec{edited})
	})
}

// Cancel ends a waiting backup at once and asks for the end of a running one,
// and gives it as it then is. One that is Canceled already stays as it is. Errors:
// CodeNotFound, CodeStateConflict where it ended in another way.
func (s *Store) Cancel(ctx context.Context, id uuid.UUID, who string) (berth.Backup, error) {
	return s.changeWaiting(ctx, id, func(tx pgx.Tx, b place) error {
		message := by("canceled", who)
		switch {
		case b.Phase == berth.PhaseCanceled:
			return nil
		case b.Phase.Waiting():
			return giveUp(ctx, tx, []int64{b.Seq}, berth.PhaseCanceled, "Canceled", message)
		case b.Phase.Running():
			_, err := tx.Exec(ctx, statement("request_cancel"), pgx.NamedArgs{"seq": b.Seq, "message": message})
			return err
		}
		return stateConflict(b, "has ended and cannot be canceled")
	})
}

// Retry puts a backup that ended Failed, PartiallyFailed or Canceled at the end
// of the queue again, with the next attempt. As an enqueue it needs no gate.
// Errors: CodeNotFound, CodeStateConflict, CodeQueueFull.
func (s *Store) Retry(ctx context.Context, id uuid.UUID, who string) (berth.Backup, error) {
	err := s.ungated(ctx, func(tx pgx.Tx) error {
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

// place is what decides what can be done with a backup.
type place struct {
	Seq     int64
	Name    string
	Cluster string
	Phase   berth.Phase
	Spec    []byte
}

func findPlace(ctx context.Context, q querier, id uuid.UUID) (place, error) {
	rows, err := q.Query(ctx, statement("place"), pgx.NamedArgs{"id": id})
	if err != nil {
		return place{}, err
	}
	b, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[place])
	if errors.Is(err, pgx.ErrNoRows) {
		return place{}, berth.Errorf(berth.CodeNotFound, "there is no such backup")
	}
	return b, err
}

// changeWaiting changes a backup behind its cluster's gate, where nobody admits
// it meanwhile.
func (s *Store) changeWaiting(ctx context.Context, id uuid.UUID, change func(pgx.Tx, place) error) (berth.Backup, error) {
	b, err := findPlace(ctx, s.pool, id)
	if err != nil {
		return berth.Backup{}, border(err)
	}
	c, err := findCluster(ctx, s.pool, b.Cluster)
	if err != nil {
		return berth.Backup{}, border(err)
	}
	err = s.gated(ctx, c.ID, func(tx pgx.Tx) error {
		b, err := findPlace(ctx, tx, id)
		if err != nil {
			return err
		}
		return change(tx, b)
	})
	if err != nil {
		return berth.Backup{}, fmt.Errorf("change backup %s: %w", b.Name, err)
	}
	return s.Backup(ctx, id)
}

func stateConflict(b place, why string) error {
	return berth.Errorf(berth.CodeStateConflict, "backup %q is %s: it %s", b.Name, b.Phase, why)
}

func by(what, who string) string {
	if who == "" {
		return what
	}
	return what + " by " + who
}
