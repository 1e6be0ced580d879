package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// CompleteContents tells which namespaces the worker of a run found that counted as
// missing when the run was admitted, since the inventory is moments behind its
// cluster, and gives the contents that the run then has. Others than the missing
// ones change nothing. ErrLeaseLost if the fence is no longer the backup's.
func (s *Store) CompleteContents(ctx context.Context, run berth.Run, found []berth.Namespace) (contents berth.Contents, err error) {
	present, excluded := []string{}, []string{}
	for _, ns := range found {
		if ns.Excluded {
			excluded = append(excluded, ns.Name)
		} else {
			present = append(present, ns.Name)
		}
	}
	err = s.ungated(ctx, func(tx *transaction) error {
		return tx.QueryRow(ctx, statement("complete_contents"), pgx.NamedArgs{
			"seq": run.Seq, "fence": run.Fence, "present": present, "excluded": excluded,
		}).Scan(&contents.Names, &contents.Missing, &contents.Excluded)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = berth.ErrLeaseLost
	}
	if err != nil {
		return berth.Contents{}, fmt.Errorf("complete the contents of backup %s: %w", run.Name, err)
	}
	return contents, nil
}
