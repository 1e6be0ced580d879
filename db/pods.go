package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// BeginPod records that the pre hooks of a pod begin: until EndPod a later attempt
// of the backup has to run its post hooks first. It may be called again.
// ErrLeaseLost if the fence is no longer the backup's.
func (s *Store) BeginPod(ctx context.Context, run berth.Run, pod berth.Pod) error {
	return s.fenced(ctx, "record the hooks of", "begin_pod", run, "", podArgs(pod))
}

// EndPod records that the post hooks of a pod have run. It may be called again.
// ErrLeaseLost if the fence is no longer the backup's.
func (s *Store) EndPod(ctx context.Context, run berth.Run, pod berth.Pod) error {
	return s.fenced(ctx, "record the hooks of", "end_pod", run, "", podArgs(pod))
}

// BegunPods are the pods of a backup whose hooks have begun and not ended.
func (s *Store) BegunPods(ctx context.Context, run berth.Run) ([]berth.Pod, error) {
	var pods []berth.Pod
	err := s.snapshot(ctx, func(tx *transaction) error {
		rows, err := tx.Query(ctx, statement("begun_pods"), pgx.NamedArgs{"seq": run.Seq})
		if err != nil {
			return err
		}
		pods, err = pgx.CollectRows(rows, pgx.RowToStructByName[berth.Pod])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the frozen pods of backup %s: %w", run.Name, err)
	}
	return pods, nil
}

func podArgs(pod berth.Pod) pgx.NamedArgs {
	return pgx.NamedArgs{"namespace": pod.Namespace, "name": pod.Name, "uid": pod.UID}
}
