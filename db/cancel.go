package db

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// Cancel ends a waiting backup at once and asks for the end of a running one,
// and gives it as it then is. One that is Canceled already stays as it is. Errors:
// CodeNotFound, CodeStateConflict where it ended in another way.
func (s *Store) Cancel(ctx context.Context, id uuid.UUID, who string) (berth.Backup, error) {
	return s.changeWaiting(ctx, id, func(tx *transaction, b place) error {
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
