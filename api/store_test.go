package api_test

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api"
)

// store answers as a test wants it to. A function that is nil panics when it
// is called, which is one more way for a store to fail.
type store struct {
	enqueue  func(berth.Request) (berth.Backup, error)
	dryRun   func(berth.Request) (berth.Prediction, error)
	rows     func(berth.Request) ([]berth.FieldError, error)
	backup   func(uuid.UUID) (berth.Backup, error)
	backups  func(berth.ListOptions) (berth.List, error)
	edit     func(uuid.UUID, berth.Edit) (berth.Backup, error)
	explain  func(uuid.UUID) (berth.Explained, error)
	log      func(uuid.UUID, int) (string, error)
	queue    func(berth.QueueOptions) (berth.Queue, error)
	settings func(string) (berth.QueueSettings, error)
	change   func(string, berth.SettingsChange) (berth.QueueSettings, error)
	pause    func(string, berth.PauseRequest) (berth.QueueSettings, error)
	resume   func(cluster, by string) (berth.QueueSettings, error)
	simulate func(berth.SimulateRequest) (berth.Forecast, error)
	ready    func(context.Context) error
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
func (s store) DryRun(_ context.Context, r berth.Request) (berth.Prediction, error) {
	return s.dryRun(r)
}
func (s store) Edit(_ context.Context, id uuid.UUID, e berth.Edit) (berth.Backup, error) {
	return s.edit(id, e)
}
func (s store) Explain(_ context.Context, id uuid.UUID) (berth.Explained, error) {
	return s.explain(id)
}
func (s store) Log(_ context.Context, id uuid.UUID, attempt int) (string, error) {
	return s.log(id, attempt)
}
func (s store) Queue(_ context.Context, o berth.QueueOptions) (berth.Queue, error) { return s.queue(o) }
func (s store) Settings(_ context.Context, cluster string) (berth.QueueSettings, error) {
	return s.settings(cluster)
}
func (s store) ChangeSettings(_ context.Context, cluster string, c berth.SettingsChange) (berth.QueueSettings, error) {
	return s.change(cluster, c)
}
func (s store) Pause(_ context.Context, cluster string, p berth.PauseRequest) (berth.QueueSettings, error) {
	return s.pause(cluster, p)
}
func (s store) Resume(_ context.Context, cluster, by string) (berth.QueueSettings, error) {
	return s.resume(cluster, by)
}
func (s store) Simulate(_ context.Context, r berth.SimulateRequest) (berth.Forecast, error) {
	return s.simulate(r)
}
func (s store) Ready(ctx context.Context) error { return s.ready(ctx) }

// failing is a store whose every answer is err.
func failing(err error) store {
	return store{
		enqueue:  func(berth.Request) (berth.Backup, error) { return berth.Backup{}, err },
		dryRun:   func(berth.Request) (berth.Prediction, error) { return berth.Prediction{}, err },
		rows:     func(berth.Request) ([]berth.FieldError, error) { return nil, err },
		backup:   func(uuid.UUID) (berth.Backup, error) { return berth.Backup{}, err },
		backups:  func(berth.ListOptions) (berth.List, error) { return berth.List{}, err },
		edit:     func(uuid.UUID, berth.Edit) (berth.Backup, error) { return berth.Backup{}, err },
		explain:  func(uuid.UUID) (berth.Explained, error) { return berth.Explained{}, err },
		log:      func(uuid.UUID, int) (string, error) { return "", err },
		queue:    func(berth.QueueOptions) (berth.Queue, error) { return berth.Queue{}, err },
		settings: func(string) (berth.QueueSettings, error) { return berth.QueueSettings{}, err },
		change:   func(string, berth.SettingsChange) (berth.QueueSettings, error) { return berth.QueueSettings{}, err },
		pause:    func(string, berth.PauseRequest) (berth.QueueSettings, error) { return berth.QueueSettings{}, err },
		resume:   func(string, string) (berth.QueueSettings, error) { return berth.QueueSettings{}, err },
		simulate: func(berth.SimulateRequest) (berth.Forecast, error) { return berth.Forecast{}, err },
		ready:    func(context.Context) error { return err },
	}
}

// working is a store with one backup of every shape. It takes every request.
func working() store {
	settings := func(cluster string) berth.QueueSettings {
		return berth.QueueSettings{Cluster: cluster, ConcurrentBackups: 2, ItemBlockWorkerCount: 1, Version: 7}
	}
	find := func(id uuid.UUID) (berth.Backup, error) {
		for _, b := range []berth.Backup{queued, notDue, running, failed} {
			if b.ID == id {
				return b, nil
			}
		}
		return berth.Backup{}, berth.Errorf(berth.CodeNotFound, "There is no backup of this id.")
	}
	return store{
		enqueue: func(r berth.Request) (berth.Backup, error) {
			b := queued
			b.Name, b.Cluster, b.Labels, b.Annotations, b.Spec = r.Name, r.Cluster, r.Labels, r.Annotations, r.Spec
			return b, nil
		},
		dryRun: func(r berth.Request) (berth.Prediction, error) {
			return berth.Prediction{
				Cluster: r.Cluster, Name: r.Name, Spec: r.Spec.WithDefaults(), Namespaces: queued.Namespaces,
				Queue: berth.QueueEntry{Position: 2, OverlappingAhead: 1, BlockedBy: allBlockers, ETA: &eta}, ComputedAt: noon,
			}, nil
		},
		backup: find,
		edit: func(id uuid.UUID, e berth.Edit) (berth.Backup, error) {
			b, err := find(id)
			if e.Priority != nil {
				b.Priority = *e.Priority
			}
			return b, err
		},
		log: func(id uuid.UUID, attempt int) (string, error) {
			_, err := find(id)
			return fmt.Sprintf("the log of attempt %d\n", attempt), err
		},
		explain: func(id uuid.UUID) (berth.Explained, error) {
			b, err := find(id)
			explained := berth.Explained{Backup: b, ComputedAt: noon}
			if b.Phase == berth.PhaseQueued {
				explained.Blockers, explained.Chain = allBlockers, []berth.Link{{Backup: berth.BackupRef{ID: running.ID, Name: running.Name}, Phase: running.Phase}}
			}
			return explained, err
		},
		backups: func(o berth.ListOptions) (berth.List, error) {
			return berth.List{Items: []berth.Backup{failed, running, queued}, Next: o.After}, nil
		},
		queue: func(o berth.QueueOptions) (berth.Queue, error) {
			return berth.Queue{
				Settings: settings(o.Cluster), ComputedAt: noon, Version: 9, Next: o.After,
				Running: []berth.Backup{running}, Waiting: []berth.Backup{queued, notDue},
			}, nil
		},
		settings: func(cluster string) (berth.QueueSettings, error) { return settings(cluster), nil },
		change: func(cluster string, c berth.SettingsChange) (berth.QueueSettings, error) {
			s := settings(cluster)
			if c.IfVersion != nil && *c.IfVersion != s.Version {
				return s, berth.Errorf(berth.CodePreconditionFailed, "The settings are not those that the change was made for.")
			}
			s.Version++
			return s, nil
		},
		pause: func(cluster string, p berth.PauseRequest) (berth.QueueSettings, error) {
			s := settings(cluster)
			s.Paused = &berth.Pause{Reason: p.Reason, By: p.By, Since: noon, Until: p.Until}
			return s, nil
		},
		resume: func(cluster, _ string) (berth.QueueSettings, error) { return settings(cluster), nil },
		simulate: func(r berth.SimulateRequest) (berth.Forecast, error) {
			f := berth.Forecast{Cluster: r.Cluster, ConcurrentBackups: 2, ComputedAt: noon, Waiting: []berth.Forecasted{
				{Backup: berth.BackupRef{ID: queued.ID, Name: queued.Name}, Position: 1, BlockedBy: allBlockers[0], ETA: eta, Now: &eta},
			}}
			for i, add := range r.Add {
				f.Waiting = append(f.Waiting, berth.Forecasted{
					Backup: berth.BackupRef{Name: add.Name}, Added: true, Position: i + 2,
					BlockedBy: berth.Blocker{Reason: berth.WaitEarlierQueuedOverlap, Backup: &berth.BackupRef{Name: add.Name}, Namespaces: []string{"shop"}},
					ETA:       berth.ETA{Basis: berth.BasisNoHistory},
				})
			}
			return f, nil
		},
		ready: func(context.Context) error { return nil },
	}
}

var (
	noon    = time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("CEST", 2*60*60))
	evening = noon.Add(10 * time.Hour)
	night   = noon.Add(16 * time.Hour)

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
	notDue = berth.Backup{
		ID: uuid.MustParse("019a8c20-11c2-7d4e-b0a7-3f6a5c1d2e9b"), Name: "tonight", Cluster: "default",
		Phase: berth.PhaseNew, Priority: 60, NotBefore: &evening, StartDeadline: &night,
		CreatedAt: noon, Attempt: 1, MaxAttempts: 3, Version: 1, ValidationErrors: []string{},
		Namespaces: berth.Namespaces{Names: []string{"shop"}},
		Queue: &berth.QueueEntry{
			BlockedBy: []berth.Blocker{{Reason: berth.WaitNotBefore, Setting: "notBefore=2026-07-01T20:00:00Z", Since: &noon}},
			ETA:       &berth.ETA{StartP50: &evening, StartP90: &evening, Basis: berth.BasisImmediate},
		},
	}
	allBlockers = []berth.Blocker{
		{Reason: berth.WaitQueuePaused, Setting: "paused by ops: upgrade", Since: &noon},
		{Reason: berth.WaitRunningOverlap, Backup: &berth.BackupRef{ID: running.ID, Name: running.Name}, Namespaces: []string{"shop"}},
		{Reason: berth.WaitNoFreeSlot, Setting: "concurrentBackups=2"},
	}
	eta     = berth.ETA{StartP50: &evening, StartP90: &night, Basis: berth.BasisSchedule, Samples: 14}
	running = berth.Backup{
		ID: uuid.MustParse("019a8c1d-0a4f-7d10-8b36-1f9c7e55a0d2"), Name: "nightly", Cluster: "default",
		Phase: berth.PhaseInProgress, Labels: map[string]string{"team": "shop"},
		CreatedAt: noon, EnqueuedAt: &noon, ReadyAt: &noon, StartedAt: &noon, ExpiresAt: &noon,
		Attempt: 2, MaxAttempts: 3, Version: 4, Worker: "worker-1", Slot: new(1),
		Namespaces: berth.Namespaces{All: true, Except: []string{"kube-system"}, Frozen: []string{"shop"}, Missing: []string{"gone"}, Excluded: []string{}},
		Progress:   &berth.Progress{ItemsBackedUp: 5, TotalItems: 10, Bytes: 4711, UpdatedAt: noon},
	}
	failed = berth.Backup{
		ID: uuid.MustParse("019a8c1c-3c1f-7a55-a3b0-64d8f5b9e0aa"), Name: "refused", Cluster: "default",
		Phase: berth.PhaseFailedValidation, Reason: "FailedValidation", Message: "The cluster refused it.",
		CreatedAt: noon, EnqueuedAt: &noon, ReadyAt: &noon, CompletedAt: &noon,
		Attempt: 1, MaxAttempts: 3, Version: 3, Worker: "worker-1", Warnings: 1, Errors: 2,
		ValidationErrors: []string{"there is no such resource"}, FailureReason: "it is not valid",
		Artifacts: []berth.Artifact{{Name: "tar.gz", Object: "failed.tar.gz", Size: 7, SHA256: "00ff"}}, Kinds: map[string]int{"v1/Pod": 3},
	}
)
