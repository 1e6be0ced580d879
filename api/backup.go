package api

import (
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

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

		Priority:      b.Priority,
		NotBefore:     inUTC(b.NotBefore),
		StartDeadline: inUTC(b.StartDeadline),

		CreatedAt:   b.CreatedAt.UTC(),
		EnqueuedAt:  inUTC(b.EnqueuedAt),
		ReadyAt:     inUTC(b.ReadyAt),
		StartedAt:   inUTC(b.StartedAt),
		CompletedAt: inUTC(b.CompletedAt),
		ExpiresAt:   inUTC(b.ExpiresAt),

		Queue:            queueEntryOf(b.Queue),
		Namespaces:       namespacesOf(b.Namespaces),
		Progress:         progressOf(b.Progress),
		Attempt:          b.Attempt,
		MaxAttempts:      b.MaxAttempts,
		Worker:           textOrNull(b.Worker),
		Slot:             b.Slot,
		Warnings:         b.Warnings,
		Errors:           b.Errors,
		ValidationErrors: someOrNull(b.ValidationErrors),
		FailureReason:    textOrNull(b.FailureReason),
		Artifacts:        artifactsOrNull(b.Artifacts),
		ItemsByKind:      kindsOrNull(b.Kinds),
		Version:          b.Version,
		Links:            linksOf(b.ID),
	}
}

func linksOf(id uuid.UUID) BackupLinks {
	self := "/backups/" + id.String()
	return BackupLinks{Self: self, Explain: self + "/explain", Logs: self + "/logs"}
}

func namespacesOf(n berth.Namespaces) Namespaces {
	return Namespaces{All: n.All, Names: orNone(n.Names), Except: orNone(n.Except), Frozen: listOrNull(n.Frozen),
		Missing: listOrNull(n.Missing), Excluded: listOrNull(n.Excluded)}
}

func queueEntryOf(q *berth.QueueEntry) *QueueEntry {
	if q == nil {
		return nil
	}
	return &QueueEntry{
		Position: positionOrNull(q.Position), OverlappingAhead: q.OverlappingAhead,
		BlockedBy: blockersOf(q.BlockedBy), ETA: etaOrNull(q.ETA),
	}
}

func blockersOf(blockers []berth.Blocker) []Blocker {
	shown := make([]Blocker, 0, len(blockers))
	for _, b := range blockers {
		shown = append(shown, blockerOf(b))
	}
	return shown
}

func blockerOf(b berth.Blocker) Blocker {
	blocker := Blocker{
		Reason: b.Reason, Namespaces: orNone(b.Namespaces), Setting: textOrNull(b.Setting), Since: inUTC(b.Since),
	}
	if b.Backup != nil {
		blocker.Backup = new(refOf(*b.Backup))
	}
	return blocker
}

func refOf(b berth.BackupRef) BackupRef { return BackupRef{ID: b.ID, Name: b.Name} }

func etaOrNull(e *berth.ETA) *ETA {
	if e == nil {
		return nil
	}
	return &ETA{StartP50: inUTC(e.StartP50), StartP90: inUTC(e.StartP90), Basis: e.Basis, Samples: e.Samples}
}

func progressOf(p *berth.Progress) *Progress {
	if p == nil {
		return nil
	}
	return &Progress{ItemsBackedUp: p.ItemsBackedUp, TotalItems: p.TotalItems, Bytes: p.Bytes, UpdatedAt: p.UpdatedAt.UTC()}
}

func artifactsOrNull(artifacts []berth.Artifact) *[]Artifact {
	if artifacts == nil {
		return nil
	}
	shown := make([]Artifact, 0, len(artifacts))
	for _, a := range artifacts {
		shown = append(shown, Artifact{Name: a.Name, Object: a.Object, Size: a.Size, Sha256: a.SHA256})
	}
	return &shown
}

func kindsOrNull(kinds map[string]int) *[]KindCount {
	if kinds == nil {
		return nil
	}
	shown := make([]KindCount, 0, len(kinds))
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		shown = append(shown, KindCount{Kind: kind, Items: kinds[kind]})
	}
	return &shown
}

func listOf(l berth.List) BackupList {
	return BackupList{Items: backupsOf(l.Items), NextCursor: textOrNull(l.Next)}
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

// positionOrNull is null for a backup that has no place.
func positionOrNull(position int) *int {
	if position == 0 {
		return nil
	}
	return &position
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

// someOrNull is null for an empty list, too.
func someOrNull(list []string) *[]string {
	if len(list) == 0 {
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
