package api

import (
	"time"

	"github.com/berth-backup/berth"
)

// backupOf is how b looks to clients: null where a field makes no sense in
// b's phase, times in UTC.
func backupOf(b berth.Backup) Backup {
	return Backup{
		ID:          b.ID,
		Name:        b.Name,
		Cluster:     b.Cluster,
		Phase:       b.Phase,
		Reason:      textOrNull(b.Reason),
		Message:     textOrNull(b.Message),
		Labels:      orEmpty(b.Labels),
		Annotations: orEmpty(b.Annotations),
		Spec:        b.Spec,

		CreatedAt:   b.CreatedAt.UTC(),
		EnqueuedAt:  inUTC(b.EnqueuedAt),
		ReadyAt:     inUTC(b.ReadyAt),
		StartedAt:   inUTC(b.StartedAt),
		CompletedAt: inUTC(b.CompletedAt),
		ExpiresAt:   inUTC(b.ExpiresAt),

		Queue: queueEntryOf(b.Queue),
		Namespaces: Namespaces{
			All:    b.Namespaces.All,
			Names:  orNone(b.Namespaces.Names),
			Except: orNone(b.Namespaces.Except),
			Frozen: listOrNull(b.Namespaces.Frozen),
		},
		Progress:         progressOf(b.Progress),
		Attempt:          b.Attempt,
		MaxAttempts:      b.MaxAttempts,
		Worker:           textOrNull(b.Worker),
		Slot:             b.Slot,
		Warnings:         b.Warnings,
		Errors:           b.Errors,
		ValidationErrors: listOrNull(b.ValidationErrors),
		FailureReason:    textOrNull(b.FailureReason),
		Version:          b.Version,
		Links:            BackupLinks{Self: "/backups/" + b.ID.String()},
	}
}

func queueEntryOf(q *berth.QueueEntry) *QueueEntry {
	if q == nil {
		return nil
	}
	entry := QueueEntry{Position: q.Position, OverlappingAhead: q.OverlappingAhead, BlockedBy: []Blocker{}}
	for _, b := range q.BlockedBy {
		blocker := Blocker{
			Reason: b.Reason, Namespaces: orNone(b.Namespaces), Setting: textOrNull(b.Setting), Since: inUTC(b.Since),
		}
		if b.Backup != nil {
			blocker.Backup = &BackupRef{ID: b.Backup.ID, Name: b.Backup.Name}
		}
		entry.BlockedBy = append(entry.BlockedBy, blocker)
	}
	return &entry
}

func progressOf(p *berth.Progress) *Progress {
	if p == nil {
		return nil
	}
	return &Progress{ItemsBackedUp: p.ItemsBackedUp, TotalItems: p.TotalItems, Bytes: p.Bytes, UpdatedAt: p.UpdatedAt.UTC()}
}

func listOf(l berth.List) BackupList {
	return BackupList{Items: backupsOf(l.Items), NextCursor: textOrNull(l.Next)}
}

func queueOf(q berth.Queue) Queue {
	running := []RunningBackup{}
	for _, b := range q.Running {
		entry := RunningBackup{Backup: backupOf(b)}
		if b.Slot != nil {
			entry.Slot = *b.Slot
		}
		running = append(running, entry)
	}
	return Queue{
		Cluster: q.Settings.Cluster, ConcurrentBackups: q.Settings.ConcurrentBackups,
		Running: running, Waiting: backupsOf(q.Waiting),
		ComputedAt: q.ComputedAt.UTC(), Version: q.Version,
	}
}

func backupsOf(backups []berth.Backup) []Backup {
	shown := make([]Backup, 0, len(backups))
	for _, b := range backups {
		shown = append(shown, backupOf(b))
	}
	return shown
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}

func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func listOrNull(list []string) *[]string {
	if list == nil {
		return nil
	}
	return &list
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
