package api

import (
	"context"

	"github.com/berth-backup/berth"
)

// CreateBackup enqueues a backup, or says what would become of it.
func (s server) CreateBackup(ctx context.Context, request CreateBackupRequestObject) (CreateBackupResponseObject, error) {
	wanted := requestOf(*request.Body, berth.DefaultCluster)
	if orZero(request.Params.DryRun) {
		prediction, err := s.store.DryRun(ctx, wanted)
		if err != nil {
			return nil, err
		}
		return CreateBackup200JSONResponse(predictionOf(prediction)), nil
	}
	backup, err := s.store.Enqueue(ctx, wanted)
	if err != nil {
		return nil, err
	}
	s.logEnqueued(ctx, backup)
	body := backupOf(backup)
	return CreateBackup201JSONResponse{Body: body, Headers: CreateBackup201ResponseHeaders{Location: body.Links.Self}}, nil
}

func (s server) logEnqueued(ctx context.Context, b berth.Backup) {
	switch {
	case b.Queue == nil: // admitted meanwhile
	case b.Queue.Position == 0:
		s.logger.InfoContext(ctx, "backup is not due yet", "backup", b.Name, "id", b.ID, "cluster", b.Cluster, "notBefore", b.NotBefore)
	default:
		s.logger.InfoContext(ctx, "backup queued", "backup", b.Name, "id", b.ID, "cluster", b.Cluster, "position", b.Queue.Position)
	}
}

func (o CreateBackupRequestObject) asked() []asked {
	return []asked{{request: requestOf(*o.Body, berth.DefaultCluster)}}
}

// requestOf is what is asked for in the domain's words, of the given cluster
// where it names none.
func requestOf(b BackupRequest, cluster string) berth.Request {
	if b.Cluster != nil {
		cluster = *b.Cluster
	}
	return berth.Request{
		Cluster: cluster, Name: orZero(b.Name), Labels: orZero(b.Labels), Annotations: orZero(b.Annotations), Spec: b.Spec,
		Priority: orZero(b.Priority), NotBefore: inUTC(b.NotBefore), StartDeadline: inUTC(b.StartDeadline),
	}
}

func predictionOf(p berth.Prediction) Prediction {
	return Prediction{
		Name: textOrNull(p.Name), Cluster: p.Cluster, Spec: p.Spec, Namespaces: namespacesOf(p.Namespaces),
		Starts: p.Starts, Queue: *queueEntryOf(&p.Queue), ComputedAt: p.ComputedAt.UTC(),
	}
}

// orZero is what a pointer that may be nil points to.
func orZero[T any](value *T) T {
	if value == nil {
		var zero T
		return zero
	}
	return *value
}
