package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/objectstore"
	"github.com/berth-backup/berth/worker"
	"github.com/berth-backup/berth/worker/backup"
)

// engine takes backups of one cluster into the storage locations that the
// database names.
type engine struct {
	cluster   *backup.Cluster
	store     *db.Store
	namespace string
	// storeTimeout bounds each request to an object store.
	storeTimeout time.Duration
}

func (e engine) Take(ctx context.Context, run berth.Run, progress func(berth.Progress)) (worker.Taken, error) {
	location, err := e.store.StorageLocation(ctx, run.Cluster, run.Spec.Location())
	if err != nil {
		return nil, fmt.Errorf("find the storage location: %w", err)
	}
	objects, err := objectstore.Open(ctx, location.URL, location.Prefix, objectstore.WithTimeout(e.storeTimeout))
	if err != nil {
		return nil, fmt.Errorf("open storage location %s: %w", location.Name, err)
	}
	done, err := backup.Take(ctx, e.cluster, objects, backup.Job{Run: run, Progress: progress})
	if err != nil {
		return nil, errors.Join(err, objects.Close())
	}
	return taken{Taken: done, objects: objects, namespace: e.namespace}, nil
}

// taken is a backup that was taken, with the store that it went to.
type taken struct {
	*backup.Taken
	objects   *objectstore.Store
	namespace string
}

func (t taken) Outcome() berth.Outcome { return t.Taken.Outcome }

func (t taken) Publish(ctx context.Context, final berth.Backup) error {
	return t.Taken.Publish(ctx, final, t.namespace)
}

func (t taken) Close() error { return t.objects.Close() }
