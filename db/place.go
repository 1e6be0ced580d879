package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

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
func (s *Store) changeWaiting(ctx context.Context, id uuid.UUID, change func(*transaction, place) error) (berth.Backup, error) {
	b, err := findPlace(ctx, s.pool, id)
	if err != nil {
		return berth.Backup{}, border(err)
	}
	clusterID, err := s.clusterID(ctx, b.Cluster)
	if err != nil {
		return berth.Backup{}, err
	}
	err = s.gated(ctx, clusterID, func(tx *transaction) error {
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
