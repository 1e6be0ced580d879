package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/berth-backup/berth"
)

// ExplainBackup says all that a backup waits for.
func (s server) ExplainBackup(ctx context.Context, request ExplainBackupRequestObject) (ExplainBackupResponseObject, error) {
	explained, err := s.store.Explain(ctx, request.ID)
	if err != nil {
		return nil, err
	}
	return ExplainBackup200JSONResponse(explanationOf(explained)), nil
}

func explanationOf(e berth.Explained) Explanation {
	b := e.Backup
	shown := Explanation{
		Backup:  ExplainedBackup{ID: b.ID, Name: b.Name, Phase: b.Phase},
		Cluster: b.Cluster, ComputedAt: e.ComputedAt.UTC(),
		BlockedBy: blockersOf(e.Blockers), MustEnd: []BackupRef{}, Chain: []ChainLink{},
		Summary: summarize(e),
	}
	if b.Queue != nil {
		shown.Position = positionOrNull(b.Queue.Position)
	}
	for _, blocker := range e.Blockers {
		if blocker.Backup != nil {
			shown.MustEnd = append(shown.MustEnd, refOf(*blocker.Backup))
		}
	}
	for _, link := range e.Chain {
		shown.Chain = append(shown.Chain, linkOf(link))
	}
	return shown
}

func linkOf(l berth.Link) ChainLink {
	link := ChainLink{Backup: refOf(l.Backup), Phase: l.Phase}
	if l.BlockedBy != nil {
		link.BlockedBy = new(blockerOf(*l.BlockedBy))
	}
	return link
}

// summarize says in words what a backup waits for: each setting by itself, the
// backups in its way together.
func summarize(e berth.Explained) string {
	if !e.Backup.Phase.Waiting() {
		return fmt.Sprintf("does not wait: it is %s", e.Backup.Phase)
	}
	if len(e.Blockers) == 0 {
		return "waits no longer: its start deadline has come"
	}
	var steps, overlaps []string
	phases := map[uuid.UUID]berth.Phase{}
	for _, link := range e.Chain {
		phases[link.Backup.ID] = link.Phase
	}
	for i, b := range e.Blockers {
		if b.Backup == nil {
			steps = append(steps, settingInWords(b))
			continue
		}
		overlaps = append(overlaps, overlapInWords(b, phases))
		if i+1 == len(e.Blockers) || e.Blockers[i+1].Backup == nil {
			steps = append(steps, "for "+enumerate(overlaps))
		}
	}
	return "waits " + strings.Join(steps, ", then ")
}

// settingInWords is a reason that is no backup's. Its phrase goes on after
// "waits".
func settingInWords(b berth.Blocker) string {
	setting, value, _ := strings.Cut(b.Setting, "=")
	switch b.Reason {
	case berth.WaitNotBefore:
		return "until " + value
	case berth.WaitBackOff:
		return "until " + value + " after it lost its worker"
	case berth.WaitQueuePaused:
		return "for the queue to be resumed (" + b.Setting + ")"
	case berth.WaitNoWorker:
		return "for a worker of its cluster"
	case berth.WaitClusterUnreachable:
		return "for its cluster's API to answer"
	case berth.WaitStorageUnavailable:
		return "for the storage location " + value
	case berth.WaitScopeUnresolvable:
		return "for its cluster's namespaces to be known"
	case berth.WaitNoFreeSlot:
		if setting == "maxBackups" {
			return "for a worker with room"
		}
		return "for a free place"
	case berth.WaitDispatch:
		return "for the next dequeue, which starts as many in the order of the queue as there are free places"
	}
	return "because of " + string(b.Reason)
}

// overlapInWords is a backup in the way: its name, its phase as far as it is
// known, and what both need.
func overlapInWords(b berth.Blocker, phases map[uuid.UUID]berth.Phase) string {
	phase, known := string(phases[b.Backup.ID]), phases[b.Backup.ID] != ""
	switch {
	case known:
	case b.Reason == berth.WaitRunningOverlap:
		phase = "running"
	default:
		phase = string(berth.PhaseQueued)
	}
	if len(b.Namespaces) == 0 {
		return fmt.Sprintf("%s (%s)", b.Backup.Name, phase)
	}
	return fmt.Sprintf("%s (%s, shares %s)", b.Backup.Name, phase, enumerate(b.Namespaces))
}

// enumerate lists words for a person: the first few, and how many more there are.
func enumerate(words []string) string {
	const most = 5
	if len(words) > most {
		words = append(slices.Clone(words[:most]), fmt.Sprintf("%d more", len(words)-most))
	}
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
