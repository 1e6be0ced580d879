package db

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/berth-backup/berth"
)

// etasOf predicts starts where the queue is no longer than a forecast tells of:
// a longer one would take seconds to simulate.
func etasOf(queue berth.Snapshot, past berth.History, ids ...uuid.UUID) map[uuid.UUID]berth.ETA {
	if len(queue.Backups) > simulated {
		return nil
	}
	return queue.ETAs(past, ids...)
}

// simulated is the longest queue of which all is simulated.
const simulated = 5 * berth.MaxForecast

// Simulate tells how a cluster's queue would go on after a change, and changes
// nothing. Errors: CodeNotFound, CodeValidationFailed.
func (s *Store) Simulate(ctx context.Context, r berth.SimulateRequest) (berth.Forecast, error) {
	if r.Cluster == "" {
		r.Cluster = berth.DefaultCluster
	}
	var forecast berth.Forecast
	err := s.snapshot(ctx, func(tx *transaction) error {
		c, err := findCluster(ctx, tx, r.Cluster)
		if err != nil {
			return err
		}
		queue, err := queueSnapshot(ctx, tx, c, extent{Depth: everything, Later: maxLater})
		if err != nil {
			return err
		}
		past, err := history(ctx, tx, c)
		if err != nil {
			return err
		}
		if err := s.checkSimulation(ctx, tx, queue, &r); err != nil {
			return err
		}
		forecast = foretell(queue, past, r)
		return nil
	})
	if err != nil {
		return berth.Forecast{}, fmt.Errorf("simulate the queue of cluster %s: %w", r.Cluster, err)
	}
	return forecast, nil
}

// checkSimulation refuses a change that names what is not there or cannot be. A
// name that is taken, or a full queue, is no obstacle to a thought.
func (s *Store) checkSimulation(ctx context.Context, q querier, queue berth.Snapshot, r *berth.SimulateRequest) error {
	change := berth.SettingsChange{ConcurrentBackups: r.ConcurrentBackups}
	problems := change.Validate()
	active := map[uuid.UUID]bool{}
	for _, b := range queue.Backups {
		active[b.ID] = true
	}
	for i, id := range r.Cancel {
		if !active[id] {
			problems = append(problems, berth.FieldError{Pointer: fmt.Sprintf("/cancel/%d", i), Code: "not-found", Detail: "no backup of this id waits or runs in the cluster"})
		}
	}
	for i := range r.Add {
		r.Add[i].Cluster = r.Cluster
		found := r.Add[i].Validate()
		_, more, err := rowProblems(ctx, q, r.Add[i], found)
		if err != nil {
			return err
		}
		for _, p := range append(found, more...) {
			p.Pointer = fmt.Sprintf("/add/%d%s", i, p.Pointer)
			problems = append(problems, p)
		}
	}
	if len(problems) > 0 {
		return &berth.Error{Code: berth.CodeValidationFailed, Detail: "the change cannot be made", Fields: problems}
	}
	return nil
}

// foretell tells how a queue goes on after a change.
func foretell(queue berth.Snapshot, past berth.History, r berth.SimulateRequest) berth.Forecast {
	change := berth.WhatIf{Cancel: r.Cancel, ConcurrentBackups: r.ConcurrentBackups}
	added := map[uuid.UUID]bool{}
	for _, request := range r.Add {
		b := thoughtOf(queue, request)
		added[b.ID] = true
		change.Add = append(change.Add, b)
	}
	after := queue.With(change)
	starts := map[uuid.UUID]bool{}
	for _, start := range after.Plan(berth.MaxConcurrentBackups).Start {
		starts[start.Backup.ID] = true
	}
	before, then := etasOf(queue, past), etasOf(after, past)
	f := berth.Forecast{Cluster: r.Cluster, ConcurrentBackups: after.ConcurrentBackups, ComputedAt: queue.At}
	for _, w := range after.Plan(0).Waiting {
		if len(f.Waiting) == berth.MaxForecast {
			f.Truncated = true
			break
		}
		told := berth.Forecasted{
			Backup: w.Backup, Added: added[w.Backup.ID], Position: w.Position, Starts: starts[w.Backup.ID], BlockedBy: w.BlockedBy,
			ETA: then[w.Backup.ID],
		}
		if blocker := told.BlockedBy.Backup; blocker != nil && added[blocker.ID] {
			told.BlockedBy.Backup = &berth.BackupRef{Name: blocker.Name}
		}
		if told.Added {
			told.Backup.ID = uuid.Nil
		} else if now, known := before[w.Backup.ID]; known {
			told.Now = &now
		}
		f.Waiting = append(f.Waiting, told)
	}
	return f
}
