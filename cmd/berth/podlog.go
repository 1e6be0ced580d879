package main

import (
	"context"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/worker"
)

// podLog records in the database which pods of a run are frozen. It waits while
// the database is away: what cannot be recorded is not frozen, and what is frozen
// stays recorded.
type podLog struct {
	store *db.Store
	run   berth.Run
}

func (l podLog) Begin(ctx context.Context, pod berth.Pod) error {
	return worker.Outlast(ctx, func() error { return l.store.BeginPod(ctx, l.run, pod) })
}

func (l podLog) End(ctx context.Context, pod berth.Pod) error {
	return worker.Outlast(ctx, func() error { return l.store.EndPod(ctx, l.run, pod) })
}

func (l podLog) Begun(ctx context.Context) (pods []berth.Pod, err error) {
	err = worker.Outlast(ctx, func() error {
		pods, err = l.store.BegunPods(ctx, l.run)
		return err
	})
	return pods, err
}
