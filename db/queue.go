package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// maxQueuePage is the greatest number of waiting backups that one page has.
const maxQueuePage = 1000

// waitingRow is a waiting backup and its place in the order of a page.
type waitingRow struct {
	backupRow
	Later bool
	Place time.Time
}

// Queue reads what runs in a cluster and a page of what waits, at one instant.
// Errors: CodeNotFound if there is no such cluster, CodeMalformedRequest for an
// After that is no Next of a page before.
func (s *Store) Queue(ctx context.Context, o berth.QueueOptions) (berth.Queue, error) {
	after, err := decodeQueueCursor(o.After)
	if err != nil {
		return berth.Queue{}, badCursor()
	}
	limit := max(1, min(o.Limit, maxQueuePage))
	var q berth.Queue
	err = s.snapshot(ctx, func(tx *transaction) error {
		c, err := findCluster(ctx, tx, o.Cluster)
		if err != nil {
			return err
		}
		q = berth.Queue{}
		if q.Settings, err = readSettings(ctx, tx, c); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, statement("queue_version"), pgx.NamedArgs{"cluster_id": c.ID}).Scan(&q.ComputedAt, &q.Version); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, statement("running"), pgx.NamedArgs{"cluster_id": c.ID})
		if err != nil {
			return err
		}
		if q.Running, err = collectBackups(rows); err != nil {
			return err
		}
		if q.Waiting, q.Next, err = waitingPage(ctx, tx, c, after, limit); err != nil {
			return err
		}
		return addETAs(ctx, tx, q.Waiting, berth.MaxForecast)
	})
	if err != nil {
		return berth.Queue{}, fmt.Errorf("read the queue of cluster %s: %w", o.Cluster, err)
	}
	return q, nil
}

func waitingPage(ctx context.Context, tx *transaction, c cluster, after queueCursor, limit int) (page []berth.Backup, next string, err error) {
	rows, err := tx.Query(ctx, statement("waiting"), pgx.NamedArgs{
		// One more than the page tells whether there is another one.
		"cluster_id": c.ID, "later": after.Later, "place": after.place(), "seq": after.Seq, "limit": limit + 1,
	})
	if err != nil {
		return nil, "", err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[waitingRow])
	if err != nil {
		return nil, "", err
	}
	if len(found) > limit {
		found = found[:limit]
		last := found[limit-1]
		next = queueCursor{Later: last.Later, Place: last.Place.UnixMicro(), Seq: last.Seq}.String()
	}
	for _, row := range found {
		b, err := row.backup()
		if err != nil {
			return nil, "", err
		}
		page = append(page, b)
	}
	return page, next, nil
}
