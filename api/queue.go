package api

import (
	"context"

	"github.com/berth-backup/berth"
)

const (
	defaultQueueLimit = 100
	maxQueueLimit     = 1000
)

// GetQueue shows what runs in a cluster and a page of what waits.
func (s server) GetQueue(ctx context.Context, request GetQueueRequestObject) (GetQueueResponseObject, error) {
	options := berth.QueueOptions{
		Cluster: clusterOf(request.Params.Cluster), Limit: defaultQueueLimit, After: orZero(request.Params.Cursor),
	}
	if request.Params.Limit != nil {
		options.Limit = min(*request.Params.Limit, maxQueueLimit)
	}
	queue, err := s.store.Queue(ctx, options)
	if err != nil {
		return nil, err
	}
	return GetQueue200JSONResponse(queueOf(queue)), nil
}

// clusterOf is the cluster that a request is about; empty means the default one.
func clusterOf(name *string) string {
	if name == nil || *name == "" {
		return berth.DefaultCluster
	}
	return *name
}

func queueOf(q berth.Queue) Queue {
	running := []RunningBackup{}
	for _, b := range q.Running {
		running = append(running, RunningBackup{Slot: orZero(b.Slot), Backup: backupOf(b)})
	}
	settings := settingsOf(q.Settings)
	return Queue{
		Cluster: settings.Cluster, ConcurrentBackups: settings.ConcurrentBackups, ItemBlockWorkerCount: settings.ItemBlockWorkerCount,
		MaxQueued: settings.MaxQueued, Paused: settings.Paused,
		Running: running, Waiting: backupsOf(q.Waiting), NextCursor: textOrNull(q.Next),
		ComputedAt: q.ComputedAt.UTC(), Version: q.Version,
	}
}
