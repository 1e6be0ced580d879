package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// addETAs tells of the waiting ones among backups when they are predicted to
// start, those at the first so many places of their queues. Each queue is read
// once, as tx sees it, and no further than the last of them: those behind hardly
// ever delay it.
func addETAs(ctx context.Context, tx *transaction, backups []berth.Backup, within int) error {
	waiting, depths := map[string][]int{}, map[string]int{}
	for i, b := range backups {
		if b.Queue == nil || b.Queue.Position > within {
			continue
		}
		waiting[b.Cluster] = append(waiting[b.Cluster], i)
		depth := b.Queue.Position
		if b.Phase == berth.PhaseNew {
			depth = within // all may come before it
		}
		depths[b.Cluster] = max(depths[b.Cluster], depth)
	}
	for clusterName, indices := range waiting {
		c, err := findCluster(ctx, tx, clusterName)
		if err != nil {
			return err
		}
		queue, past, err := foresee(ctx, tx, c, depths[clusterName])
		if err != nil {
			return err
		}
		ids := make([]uuid.UUID, len(indices))
		for n, i := range indices {
			ids[n] = backups[i].ID
		}
		etas := queue.ETAs(past, ids...)
		for _, i := range indices {
			if eta, told := etas[backups[i].ID]; told {
				backups[i].Queue.ETA = &eta
			}
		}
	}
	return nil
}

// maxLater is how many backups that are not due a prediction counts with.
const maxLater = 500

// foresee reads what predictions rest on: the first places of a queue, and the
// last runs.
func foresee(ctx context.Context, tx *transaction, c cluster, depth int) (berth.Snapshot, berth.History, error) {
	queue, err := queueSnapshot(ctx, tx, c, extent{Depth: depth, Later: min(depth, maxLater)})
	if err != nil {
		return queue, nil, err
	}
	past, err := history(ctx, tx, c)
	return queue, past, err
}

// Predict keeps for each backup that has entered a cluster's queue when it was
// first predicted to start, so that it can be told how often predictions hold.
func (s *Store) Predict(ctx context.Context, clusterName string) error {
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return border(err)
	}
	type prediction struct {
		Seq      int64      `json:"seq"`
		StartP50 *time.Time `json:"start_p50"`
		StartP90 *time.Time `json:"start_p90"`
		Basis    string     `json:"basis"`
	}
	var at time.Time
	var predictions []prediction
	err = s.snapshot(ctx, func(tx *transaction) error {
		predictions = nil
		rows, err := tx.Query(ctx, statement("unpredicted"), pgx.NamedArgs{"cluster_id": c.ID, "depth": berth.MaxForecast})
		if err != nil {
			return err
		}
		type unpredicted struct {
			Seq int64
			ID  uuid.UUID
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[unpredicted])
		if err != nil || len(found) == 0 {
			return err
		}
		queue, past, err := foresee(ctx, tx, c, berth.MaxForecast)
		if err != nil || len(past) == 0 {
			return err
		}
		at = queue.At
		etas := queue.ETAs(past)
		for _, b := range found {
			if eta := etas[b.ID]; eta.StartP50 != nil && eta.StartP90 != nil {
				predictions = append(predictions, prediction{Seq: b.Seq, StartP50: eta.StartP50, StartP90: eta.StartP90, Basis: string(eta.Basis)})
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("predict the queue of cluster %s: %w", clusterName, err)
	}
	if len(predictions) == 0 {
		return nil
	}
	text, err := json.Marshal(predictions)
	if err != nil {
		return fmt.Errorf("encode predictions: %w", err)
	}
	return s.ungated(ctx, func(tx *transaction) error {
		if _, err := tx.Exec(ctx, statement("predict"), pgx.NamedArgs{"at": at, "predictions": string(text)}); err != nil {
			return fmt.Errorf("keep %d predictions: %w", len(predictions), err)
		}
		return nil
	})
}
