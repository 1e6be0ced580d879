package db

import (
	"context"
	"errors"

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
	return s.changeWaiting(ctx, id, func(tx *transaction, b place) error {
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
		var moves, never bool
		var notified *string
		err := tx.QueryRow(ctx, statement("edit"), args).Scan(&edited.Seq, &phase, &moves, &edited.Spec, &never, &notified)
		if errors.Is(err, pgx.ErrNoRows) {
			return stateConflict(b, "does not wait any more: only a waiting backup can be edited")
		}
		if err == nil && never {
			wrong := berth.FieldError{Pointer: "/startDeadline", Code: "conflict", Detail: "startDeadline must be later than the backup's notBefore"}
			if e.StartDeadline == nil {
				wrong = berth.FieldError{Pointer: "/notBefore", Code: "conflict", Detail: "notBefore must be earlier than the backup's startDeadline"}
			}
			return &berth.Error{Code: berth.CodeValidationFailed, Detail: "the backup cannot be as asked for", Fields: []berth.FieldError{wrong}}
		}
		if err != nil || phase != berth.PhaseQueued || !moves {
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
