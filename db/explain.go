package db

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// everything is deeper than any queue.
const everything = 1 << 30

// Explain tells all that is in the way of a backup, at one instant. CodeNotFound
// if there is none of that id.
func (s *Store) Explain(ctx context.Context, id uuid.UUID) (berth.Explained, error) {
	var explained berth.Explained
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		row, err := readBackup(ctx, tx, "b.id = @id", pgx.NamedArgs{"id": id})
		if err != nil {
			return err
		}
		found, err := row.backup()
		if err != nil {
			return err
		}
		one := []berth.Backup{found}
		if err := addETAs(ctx, tx, one, berth.MaxForecast); err != nil {
			return err
		}
		explained = berth.Explained{Backup: one[0]}
		c, err := findCluster(ctx, tx, row.Cluster)
		if err != nil {
			return err
		}
		// Who is behind it is not in its way.
		ahead := extent{Depth: everything, Through: &standing{OrderKey: row.OrderKey, Seq: row.Seq}}
		if !found.Phase.Waiting() {
			ahead = extent{}
		}
		queue, err := queueSnapshot(ctx, tx, c, ahead)
		if err != nil {
			return err
		}
		explained.ComputedAt = queue.At
		if e, waits := queue.Explain(id); waits {
			explained.Blockers = atMost(e.Blockers, berth.MaxOverlapping)
			explained.Chain = e.Chain[:min(len(e.Chain), berth.MaxOverlapping)]
		}
		since(explained.Blockers, explained.Backup.Queue)
		return nil
	})
	if err != nil {
		return berth.Explained{}, fmt.Errorf("explain backup %s: %w", id, err)
	}
	return explained, nil
}

// atMost leaves out of the backups in the way all but the first so many.
func atMost(blockers []berth.Blocker, most int) []berth.Blocker {
	kept := blockers[:0:0]
	backups := 0
	for _, b := range blockers {
		if b.Backup != nil {
			if backups++; backups > most {
				continue
			}
		}
		kept = append(kept, b)
	}
	return kept
}

// since adds to what is in the way since when it is, where the row knows.
func since(blockers []berth.Blocker, entry *berth.QueueEntry) {
	if entry == nil {
		return
	}
	for i, b := range blockers {
		for _, known := range entry.BlockedBy {
			if b.Reason == known.Reason && (b.Backup == nil) == (known.Backup == nil) && (b.Backup == nil || b.Backup.ID == known.Backup.ID) {
				blockers[i].Since = known.Since
			}
		}
	}
}

// DryRun tells what would become of a request, and changes nothing. Its errors
// are those of Enqueue.
func (s *Store) DryRun(ctx context.Context, r berth.Request) (berth.Prediction, error) {
	if r.Cluster == "" {
		r.Cluster = berth.DefaultCluster
	}
	problems := r.Validate()
	var prediction berth.Prediction
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		if err := refusedOf(ctx, tx, r, problems); err != nil {
			return err
		}
		c, err := findCluster(ctx, tx, r.Cluster)
		if err != nil {
			return err
		}
		if err := s.wouldFit(ctx, tx, c, r); err != nil {
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
		prediction = predict(queue, past, r)
		return nil
	})
	if err != nil {
		return berth.Prediction{}, fmt.Errorf("try backup %s: %w", r.Name, err)
	}
	return prediction, nil
}

// refusedOf is the error of a request that cannot be taken; nil if it can.
func refusedOf(ctx context.Context, q querier, r berth.Request, problems []berth.FieldError) error {
	_, more, err := rowProblems(ctx, q, r, problems)
	if err != nil {
		return err
	}
	if problems = append(problems, more...); len(problems) > 0 {
		return invalid(problems)
	}
	return nil
}

// wouldFit refuses a request whose name is taken or that the cap leaves no room for.
func (s *Store) wouldFit(ctx context.Context, q querier, c cluster, r berth.Request) error {
	existing, err := readBackup(ctx, q, "b.cluster_id = @cluster_id AND b.name = @name", pgx.NamedArgs{"cluster_id": c.ID, "name": r.Name})
	if err == nil {
		taken := nameTaken(r)
		taken.ExistingID = existing.ID.String()
		return taken
	}
	if berth.CodeOf(err) != berth.CodeNotFound {
		return err
	}
	return checkRoom(ctx, q, c, 1)
}

// predict puts a request into a queue that is only thought of.
func predict(queue berth.Snapshot, past berth.History, r berth.Request) berth.Prediction {
	added := thoughtOf(queue, r)
	after := queue.With(berth.WhatIf{Add: []berth.Standing{added}})
	claim, resolvable := added.Scope.Claim(queue.Namespaces, queue.Synced)
	p := berth.Prediction{Cluster: r.Cluster, Name: r.Name, Spec: r.Spec.WithDefaults(), ComputedAt: queue.At}
	switch {
	case claim.All && resolvable:
		p.Namespaces = berth.Namespaces{All: true, Except: claim.Names}
	case claim.All:
		p.Namespaces = berth.Namespaces{All: true}
	default:
		p.Namespaces = berth.Namespaces{Names: claim.Names}
	}
	if e, waits := after.Explain(added.ID); waits {
		p.Queue = berth.QueueEntry{Position: e.Position, OverlappingAhead: e.OverlappingAhead, BlockedBy: atMost(e.Blockers, berth.MaxOverlapping)}
	}
	for _, start := range after.Plan(berth.MaxConcurrentBackups).Start {
		p.Starts = p.Starts || start.Backup.ID == added.ID
	}
	if eta, told := etasOf(after, past, added.ID)[added.ID]; told {
		p.Queue.ETA = &eta
	}
	return p
}

// thoughtOf is the standing that a request would have at the end of the queue.
func thoughtOf(queue berth.Snapshot, r berth.Request) berth.Standing {
	spec := r.Spec.WithDefaults()
	scope, _ := berth.ScopeOf(spec.IncludedNamespaces, spec.ExcludedNamespaces)
	return berth.Standing{
		ID: uuid.New(), Name: r.Name, Scope: scope, Location: spec.Location(), OrderKey: berth.OrderKey(queue.At, r.NotBefore, r.Priority),
		NotBefore: r.NotBefore, StartDeadline: r.StartDeadline, RunKey: berth.RunKeyOf(r.Labels, spec),
	}
}

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
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
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
