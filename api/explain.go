package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
	for i, b := range e.Blockers {
		if b.Backup == nil {
			steps = append(steps, settingInWords(b))
			continue
		}
		overlaps = append(overlaps, overlapInWords(b))
		if i+1 == len(e.Blockers) || e.Blockers[i+1].Backup == nil {
			steps = append(steps, "for "+enumerate(overlaps, berth.MaxOverlapping))
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
		return "until " + value + " after an attempt that was lost"
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

// overlapInWords is a backup in the way: its name, whether it runs, and what both
// need.
func overlapInWords(b berth.Blocker) string {
	stands := "queued"
	if b.Reason == berth.WaitRunningOverlap {
		stands = "running"
	}
	if len(b.Namespaces) == 0 {
		return fmt.Sprintf("%s (%s)", b.Backup.Name, stands)
	}
	return fmt.Sprintf("%s (%s, shares %s)", b.Backup.Name, stands, enumerate(b.Namespaces, berth.MaxShared))
}

// enumerate lists words for a person: the first few, and how many more there are,
// of which no more than most were counted.
func enumerate(words []string, most int) string {
	const first = 5
	if len(words) > first {
		more := fmt.Sprintf("%d more", len(words)-first)
		if len(words) >= most {
			more = "at least " + more
		}
		words = append(slices.Clone(words[:first]), more)
	}
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
