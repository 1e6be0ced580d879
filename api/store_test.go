package api_test

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api"
)

// store answers as a test wants it to. A function that is nil panics when it
// is called, which is one more way for a store to fail.
type store struct {
	enqueue func(berth.Request) (berth.Backup, error)
	rows    func(berth.Request) ([]berth.FieldError, error)
	backup  func(uuid.UUID) (berth.Backup, error)
	backups func(berth.ListOptions) (berth.List, error)
	queue   func(string) (berth.Queue, error)
	ready   func(context.Context) error
}

var _ api.Store = store{}

func (s store) Enqueue(_ context.Context, request berth.Request) (berth.Backup, error) {
	return s.enqueue(request)
}
func (s store) RowProblems(_ context.Context, request berth.Request) ([]berth.FieldError, error) {
	if s.rows == nil { // nothing to complain of
		return nil, nil
	}
	return s.rows(request)
}
func (s store) Backup(_ context.Context, id uuid.UUID) (berth.Backup, error) { return s.backup(id) }
func (s store) Backups(_ context.Context, options berth.ListOptions) (berth.List, error) {
	return s.backups(options)
}
func (s store) Queue(_ context.Context, o berth.QueueOptions) (berth.Queue, error) {
	return s.queue(o.Cluster)
}
func (s store) Ready(ctx context.Context) error { return s.ready(ctx) }

// failing is a store whose every answer is err.
func failing(err error) store {
	return store{
		enqueue: func(berth.Request) (berth.Backup, error) { return berth.Backup{}, err },
		rows:    func(berth.Request) ([]berth.FieldError, error) { return nil, err },
		backup:  func(uuid.UUID) (berth.Backup, error) { return berth.Backup{}, err },
		backups: func(berth.ListOptions) (berth.List, error) { return berth.List{}, err },
		queue:   func(string) (berth.Queue, error) { return berth.Queue{}, err },
		ready:   func(context.Context) error { return err },
	}
}

// working is a store with one backup of every shape. It takes every request.
func working() store {
	return store{
		enqueue: func(r berth.Request) (berth.Backup, error) {
			b := queued
			b.Name, b.Cluster, b.Labels, b.Annotations, b.Spec = r.Name, r.Cluster, r.Labels, r.Annotations, r.Spec
			return b, nil
		},
		backup: func(id uuid.UUID) (berth.Backup, error) {
			for _, b := range []berth.Backup{queued, running, failed} {
				if b.ID == id {
					return b, nil
				}
			}
			return berth.Backup{}, berth.Errorf(berth.CodeNotFound, "There is no backup of this id.")
		},
		backups: func(o berth.ListOptions) (berth.List, error) {
			return berth.List{Items: []berth.Backup{failed, running, queued}, Next: o.After}, nil
		},
		queue: func(cluster string) (berth.Queue, error) {
			return berth.Queue{
				Settings: berth.QueueSettings{Cluster: cluster, ConcurrentBackups: 2, ItemBlockWorkerCount: 1, Version: 1}, ComputedAt: noon, Version: 9,
				Running: []berth.Backup{running}, Waiting: []berth.Backup{queued},
			}, nil
		},
		ready: func(context.Context) error { return nil },
	}
}

var (
	noon   = time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("CEST", 2*60*60))
	queued = berth.Backup{
		ID: uuid.MustParse("019a8c1e-7b1d-7c3e-9f52-6a0e4d2b8c11"), Name: "shop", Cluster: "default",
		Phase: berth.PhaseQueued, Spec: berth.Spec{IncludedNamespaces: []string{"shop"}},
		CreatedAt: noon, EnqueuedAt: &noon, Attempt: 1, MaxAttempts: 3, Version: 1,
		Namespaces: berth.Namespaces{Names: []string{"shop"}},
		Queue: &berth.QueueEntry{Position: 1, OverlappingAhead: 1, BlockedBy: []berth.Blocker{{
			Reason: berth.WaitRunningOverlap, Backup: &berth.BackupRef{ID: running.ID, Name: running.Name},
			Namespaces: []string{"shop"}, Since: &noon,
		}}},
	}
	running = berth.Backup{
		ID: uuid.MustParse("019a8c1d-0a4f-7d10-8b36-1f9c7e55a0d2"), Name: "nightly", Cluster: "default",
		Phase: berth.PhaseInProgress, Labels: map[string]string{"team": "shop"},
		CreatedAt: noon, EnqueuedAt: &noon, ReadyAt: &noon, StartedAt: &noon, ExpiresAt: &noon,
		Attempt: 2, MaxAttempts: 3, Version: 4, Worker: "worker-1", Slot: new(1),
		Namespaces: berth.Namespaces{All: true, Except: []string{"kube-system"}, Frozen: []string{"shop"}},
		Progress:   &berth.Progress{ItemsBackedUp: 5, TotalItems: 10, Bytes: 4711, UpdatedAt: noon},
	}
	failed = berth.Backup{
		ID: uuid.MustParse("019a8c1c-3c1f-7a55-a3b0-64d8f5b9e0aa"), Name: "refused", Cluster: "default",
		Phase: berth.PhaseFailedValidation, Reason: "FailedValidation", Message: "The cluster refused it.",
		CreatedAt: noon, EnqueuedAt: &noon, ReadyAt: &noon, CompletedAt: &noon,
		Attempt: 1, MaxAttempts: 3, Version: 3, Worker: "worker-1", Warnings: 1, Errors: 2,
		ValidationErrors: []string{"there is no such resource"}, FailureReason: "it is not valid",
	}
)
