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

// markBudget is how many passes a look without room makes: what marks must not
// keep those from the gate who admit.
const markBudget = 20

// mostPassedOver is how many of those that a dequeue passed over are told by
// name: to find what wide scopes share takes milliseconds for each.
const mostPassedOver = 10

// Dispatch admits what may start, at most Want, and marks what may not with
// the backup in its way. It goes on in further transactions while there is
// something left to look at and nothing was admitted: what was admitted has a
// lease that runs, and a hint on ChannelQueue tells that more is to be done.
func (s *Store) Dispatch(ctx context.Context, d berth.DispatchRequest) (berth.Dispatched, error) {
	clusterID, err := s.clusterID(ctx, d.Cluster)
	if err != nil {
		return berth.Dispatched{}, err
	}
	total, passedOver, err := s.dispatch(ctx, clusterID, d)
	if err != nil {
		return total, err
	}
	told := passedOver[:min(len(passedOver), mostPassedOver)]
	total.MorePassedOver = len(passedOver) - len(told)
	total.PassedOver, err = s.passedOver(ctx, told)
	return total, err
}

// dispatch also gives the backups that were passed over.
func (s *Store) dispatch(ctx context.Context, clusterID int32, d berth.DispatchRequest) (total berth.Dispatched, passedOver []int64, err error) {
	for pass := 1; ; pass++ {
		// Whoever enqueues or leaves after this look also wakes a dispatcher.
		var candidates, departures, turned bool
		err := s.pool.QueryRow(ctx, statement("look"), pgx.NamedArgs{"cluster_id": clusterID, "want": d.Want}).Scan(&candidates, &departures, &turned)
		if err != nil {
			return total, passedOver, border(fmt.Errorf("look into the queue of cluster %s: %w", d.Cluster, err))
		}
		if turned {
			if err := s.turn(ctx, clusterID, d.Cluster); err != nil {
				return total, passedOver, fmt.Errorf("dequeue from cluster %s: %w", d.Cluster, err)
			}
			// Who waited for one that passed its deadline comes before those behind it.
			candidates, departures = true, true
		}
		if departures {
			if departures, err = s.releaseStaleWatchers(ctx, clusterID); err != nil {
				return total, passedOver, fmt.Errorf("dequeue from cluster %s: %w", d.Cluster, err)
			}
		} else if !candidates {
			return total, passedOver, nil
		}
		done, err := s.dispatchOnce(ctx, clusterID, d)
		if err != nil {
			return total, passedOver, fmt.Errorf("dequeue from cluster %s: %w", d.Cluster, err)
		}
		total.Runs = append(total.Runs, done.runs...)
		passedOver = append(passedOver, done.passedOver...)
		if len(done.runs) > 0 || !done.More && !turned && !departures || d.Want == 0 && pass == markBudget {
			return total, passedOver, nil
		}
	}
}

type dispatchPass struct {
	More       bool
	Admitted   []admitted
	passedOver []int64
	runs       []berth.Run
}

// admitted is a run as dispatch.sql gives it back.
type admitted struct {
	Seq              int64             `json:"seq"`
	ID               uuid.UUID         `json:"id"`
	Name             string            `json:"name"`
	Attempt          int               `json:"attempt"`
	Fence            int64             `json:"fence"`
	Slot             int               `json:"slot"`
	Labels           map[string]string `json:"labels"`
	Annotations      map[string]string `json:"annotations"`
	Spec             berth.Spec        `json:"spec"`
	CreatedAt        time.Time         `json:"created_at"`
	EnqueuedAt       time.Time         `json:"enqueued_at"`
	ReadyAt          time.Time         `json:"ready_at"`
	ExpiresAt        time.Time         `json:"expires_at"`
	Contents         []string          `json:"contents"`
	ContentsMissing  []string          `json:"contents_missing"`
	ContentsExcluded []string          `json:"contents_excluded"`
	ItemBlockWorkers int               `json:"item_block_worker_count"`
}

func (s *Store) dispatchOnce(ctx context.Context, clusterID int32, d berth.DispatchRequest) (dispatchPass, error) {
	var pass dispatchPass
	err := s.dequeue(ctx, clusterID, func(tx *transaction) error {
		pass = dispatchPass{}
		return dispatchInto(ctx, tx, clusterID, d, &pass)
	})
	if err != nil {
		return dispatchPass{}, err
	}
	for _, a := range pass.Admitted {
		pass.runs = append(pass.runs, berth.Run{
			Seq: a.Seq, ID: a.ID, Cluster: d.Cluster, Name: a.Name, Attempt: a.Attempt, Fence: a.Fence, Slot: a.Slot,
			Labels: a.Labels, Annotations: a.Annotations, Spec: a.Spec,
			ItemBlockWorkerCount: a.ItemBlockWorkers, CreatedAt: a.CreatedAt, EnqueuedAt: a.EnqueuedAt, ReadyAt: a.ReadyAt, ExpiresAt: a.ExpiresAt,
			Contents: berth.Contents{Names: a.Contents, Missing: a.ContentsMissing, Excluded: a.ContentsExcluded},
		})
	}
	return pass, nil
}

func dispatchInto(ctx context.Context, tx *transaction, clusterID int32, d berth.DispatchRequest, pass *dispatchPass) error {
	var admitted json.RawMessage
	var told int
	err := tx.last(ctx, statement("dispatch"), pgx.NamedArgs{
		"cluster_id": clusterID, "want": d.Want, "worker": d.Worker, "lease_ttl": d.LeaseTTL,
	}, &pass.More, &admitted, &pass.passedOver, &told)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(admitted, &pass.Admitted); err != nil {
		return fmt.Errorf("read the admitted backups: %w", err)
	}
	return nil
}

// passedOver tells what these wait for, when the gate is open again.
func (s *Store) passedOver(ctx context.Context, seqs []int64) (found []berth.PassedOver, err error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	err = s.snapshot(ctx, func(tx *transaction) error {
		rows, err := tx.Query(ctx, statement("passed_over"), pgx.NamedArgs{"seqs": seqs})
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByName[berth.PassedOver])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the backups passed over: %w", err)
	}
	return found, nil
}

// Remark lets the next looks without room look at everyone in a cluster's queue
// again: what a witness is that is not the furthest back, or that nobody
// cleared, they mend.
func (s *Store) Remark(ctx context.Context, clusterName string) error {
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return border(err)
	}
	return s.gated(ctx, c.ID, func(tx *transaction) error {
		if _, err := tx.Exec(ctx, statement("remark"), pgx.NamedArgs{"cluster_id": c.ID}); err != nil {
			return fmt.Errorf("look at the queue of cluster %s again: %w", clusterName, err)
		}
		return nil
	})
}

// releaseBudget is how many stretches of watchers are looked at, and releaseEnough
// how many of them are released, before a dequeue admits: more than there are
// places can wait, and so can a free place not.
const (
	releaseBudget = 16
	releaseEnough = 128
)

// releaseStaleWatchers looks again at backups that wait for one that is no
// longer in their way, and says whether there are more of those.
func (s *Store) releaseStaleWatchers(ctx context.Context, clusterID int32) (more bool, err error) {
	total := 0
	for range releaseBudget {
		if err := s.pool.QueryRow(ctx, statement("any_departure"), pgx.NamedArgs{"cluster_id": clusterID}).Scan(&more); err != nil {
			return false, border(fmt.Errorf("look for departures: %w", err))
		}
		if !more || total >= releaseEnough {
			return more, nil
		}
		var released, told int
		err := s.gated(ctx, clusterID, func(tx *transaction) error {
			return tx.QueryRow(ctx, statement("release_watchers"), pgx.NamedArgs{"cluster_id": clusterID}).Scan(&released, &told)
		})
		if err != nil {
			return false, fmt.Errorf("release watchers: %w", err)
		}
		total += released
	}
	return true, nil
}
