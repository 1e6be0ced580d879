package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// monthsAhead is how many months' event partitions stand ready: one month
// without any process of Berth's leaves two.
const monthsAhead = 3

// MakePartitions makes the event table's partitions of this month and of those
// to come, where they do not exist.
func (s *Store) MakePartitions(ctx context.Context) error {
	return s.ungated(ctx, func(tx *transaction) error {
		if _, err := tx.Exec(ctx, statement("partitions"), pgx.NamedArgs{"months": monthsAhead}); err != nil {
			return fmt.Errorf("make the event table's partitions: %w", err)
		}
		return nil
	})
}
