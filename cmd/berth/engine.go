package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

func (e engine) Validate(ctx context.Context, run berth.Run) ([]string, error) {
	return e.cluster.Validate(ctx, run.Spec, e.namespace)
}

func (e engine) Take(ctx context.Context, run berth.Run, report worker.Report) (worker.Taken, error) {
	contents, err := e.contents(ctx, run)
	if err != nil {
		return nil, err
	}
	run.Contents = contents
	location, err := e.store.StorageLocation(ctx, run.Cluster, run.Spec.Location())
	if err != nil {
		return nil, fmt.Errorf("find the storage location: %w", err)
	}
	objects, err := objectstore.Open(ctx, location.URL, location.Prefix, objectstore.WithTimeout(e.storeTimeout))
	if err != nil {
		return nil, fmt.Errorf("open storage location %s: %w", location.Name, err)
	}
	done, err := backup.Take(ctx, e.cluster, objects, backup.Job{
		Run: run, Namespace: e.namespace, Progress: report.Progress, Log: report.Log, Pods: podLog{e.store, run},
	})
	if err != nil {
		return nil, errors.Join(err, objects.Close())
	}
	return taken{Taken: done, objects: objects, namespace: e.namespace}, nil
}

// contents are a run's, after a second look for what was missing at its admission:
// the inventory is moments behind its cluster, and a namespace that was made just
// before its backup is no missing one.
func (e engine) contents(ctx context.Context, run berth.Run) (berth.Contents, error) {
	if len(run.Contents.Missing) == 0 {
		return run.Contents, nil
	}
	there, err := e.cluster.Namespaces(ctx)
	if err != nil {
		return berth.Contents{}, err
	}
	missing := make(map[string]bool, len(run.Contents.Missing))
	for _, name := range run.Contents.Missing {
		missing[name] = true
	}
	found := slices.DeleteFunc(there, func(ns berth.Namespace) bool { return !missing[ns.Name] })
	if len(found) == 0 {
		return run.Contents, nil
	}
	return e.store.CompleteContents(ctx, run, found)
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
