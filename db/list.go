package db

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// maxPage is the greatest number of backups that one page has.
const maxPage = 200

// Backups reads one page of a list, newest first. An After that is no Next of
// a page before is CodeMalformedRequest.
func (s *Store) Backups(ctx context.Context, o berth.ListOptions) (berth.List, error) {
	conditions, args := []string{"true"}, pgx.NamedArgs{}
	if o.Cluster != "" {
		conditions = append(conditions, "b.cluster = @cluster")
		args["cluster"] = o.Cluster
	}
	if len(o.Phases) > 0 {
		conditions = append(conditions, "b.phase = ANY (@phases::text[])")
		args["phases"] = o.Phases
	}
	if o.After != "" {
		before, err := decodeCursor(o.After)
		if err != nil {
			return berth.List{}, badCursor()
		}
		conditions = append(conditions, "b.seq < @before")
		args["before"] = before
	}
	limit := max(1, min(o.Limit, maxPage))
	// One more than the page tells whether there is another one.
	args["limit"] = limit + 1
	sql := statement("backup") + " WHERE " + strings.Join(conditions, " AND ") + " ORDER BY b.seq DESC LIMIT @limit"
	var list berth.List
	err := s.snapshot(ctx, func(tx *transaction) (err error) {
		list, err = listPage(ctx, tx, sql, args, limit)
		return err
	})
	if err != nil {
		return berth.List{}, fmt.Errorf("list backups: %w", err)
	}
	return list, nil
}

func listPage(ctx context.Context, tx *transaction, sql string, args pgx.NamedArgs, limit int) (berth.List, error) {
	rows, err := tx.Query(ctx, sql, args)
	if err != nil {
		return berth.List{}, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[backupRow])
	if err != nil {
		return berth.List{}, err
	}
	var list berth.List
	if len(found) > limit {
		found = found[:limit]
		list.Next = encodeCursor(found[limit-1].Seq)
	}
	for _, row := range found {
		b, err := row.backup()
		if err != nil {
			return berth.List{}, err
		}
		list.Items = append(list.Items, b)
	}
	return list, addETAs(ctx, tx, list.Items, berth.MaxForecast)
}
