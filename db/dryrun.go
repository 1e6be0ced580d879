package db

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// DryRun tells what would become of a request, and changes nothing. Its errors
// are those of Enqueue.
func (s *Store) DryRun(ctx context.Context, r berth.Request) (berth.Prediction, error) {
	if r.Cluster == "" {
		r.Cluster = berth.DefaultCluster
	}
	problems := r.Validate()
	var prediction berth.Prediction
	err := s.snapshot(ctx, func(tx *transaction) error {
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
	case r.NotBefore != nil && r.NotBefore.After(queue.At): // New, it claims nothing
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
	if r.StartDeadline != nil && !r.StartDeadline.After(queue.At) {
		p.Queue.ETA = &berth.ETA{Basis: berth.BasisStartDeadline}
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
