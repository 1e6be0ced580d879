package berth

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Explanation is all that is in a waiting backup's way at one instant, and what
// has to end before it can start.
type Explanation struct {
	Waiting
	// Blockers are every reason that holds, in the order of WaitReasons: one for
	// each setting, and one for each backup that overlaps, in the order of the
	// queue. Dispatch stands alone.
	Blockers []Blocker
	// Chain leads from the witness over the witness's witness and so on to the one
	// that has to end or move first: a running one, or one that a setting keeps.
	// Empty where nobody overlaps.
	Chain []Link
}

// Link is one backup of a chain.
type Link struct {
	Backup BackupRef
	Phase  Phase
	// BlockedBy is what it waits for itself; nil for a running one.
	BlockedBy *Blocker
}

// Explain tells all about one waiting backup. ok is false where none of that id
// waits, or its start deadline has come.
func (s Snapshot) Explain(id uuid.UUID) (e Explanation, ok bool) {
	l := s.line()
	waiting := l.waiting()
	at := slices.IndexFunc(waiting, func(w Waiting) bool { return w.Backup.ID == id })
	if at < 0 {
		return Explanation{}, false
	}
	e.Waiting = waiting[at]
	if at >= len(l.queued) {
		e.Blockers = l.notDue[at-len(l.queued)].settings
		return e, true
	}
	e.Blockers = l.blockers(at)
	e.Chain = l.chain(waiting, e.Witness)
	return e, true
}

// blockedBy is the reason that counts for a queued backup. last is the number of
// the witness, -1 for none; existing are the cluster's namespaces, sorted.
//
// Invariant 5: each waiting backup names what it waits for, and that is true.
func (l *line) blockedBy(b *entrant, last int, existing []string) Blocker {
	switch {
	case len(b.settings) > 0:
		return b.settings[0]
	case last >= 0:
		return l.overlap(b, last, existing)
	case len(l.running) >= l.places:
		return l.noFreeSlot()
	}
	return Blocker{Reason: WaitDispatch}
}

// blockers are all that is in the way of the queued backup of that index.
func (l *line) blockers(index int) []Blocker {
	b := l.queued[index]
	all := slices.Clone(b.settings)
	existing := l.inventory.existing()
	for number := range len(l.running) + index {
		if l.at(number).claim.Overlaps(b.claim) {
			all = append(all, l.overlap(b, number, existing))
		}
	}
	if len(l.running) >= l.places {
		all = append(all, l.noFreeSlot())
	}
	if len(all) == 0 {
		all = append(all, Blocker{Reason: WaitDispatch})
	}
	return all
}

// chain follows the witnesses. Each is earlier than the one before, so it ends.
func (l *line) chain(waiting []Waiting, witness *BackupRef) []Link {
	running, queued := map[uuid.UUID]*entrant{}, map[uuid.UUID]int{}
	for _, b := range l.running {
		running[b.ID] = b
	}
	for i, b := range l.queued {
		queued[b.ID] = i
	}
	var links []Link
	for witness != nil {
		if b, runs := running[witness.ID]; runs {
			return append(links, Link{Backup: *witness, Phase: b.Phase})
		}
		next := waiting[queued[witness.ID]]
		links = append(links, Link{Backup: *witness, Phase: PhaseQueued, BlockedBy: &next.BlockedBy})
		if next.BlockedBy.Backup == nil {
			return links
		}
		witness = next.Witness
	}
	return links
}

// overlap is the backup of that number in the way of b.
func (l *line) overlap(b *entrant, number int, existing []string) Blocker {
	other := l.at(number)
	reason := WaitEarlierQueuedOverlap
	if number < len(l.running) {
		reason = WaitRunningOverlap
	}
	return Blocker{Reason: reason, Backup: new(other.Ref()), Namespaces: b.claim.Shared(other.claim, existing)}
}

// noFreeSlot names the workers' caps only where the limit would let more run.
func (l *line) noFreeSlot() Blocker {
	setting := fmt.Sprintf("concurrentBackups=%d", l.ConcurrentBackups)
	if len(l.running) < l.ConcurrentBackups {
		setting = fmt.Sprintf("maxBackups=%d", l.Workers.MaxBackups)
	}
	return Blocker{Reason: WaitNoFreeSlot, Setting: setting}
}

// settings are, in the order of WaitReasons, all that keep a waiting backup from
// being admitted whoever else is there.
func (l *line) settings(b *Standing, resolvable bool) []Blocker {
	var found []Blocker
	add := func(holds bool, reason WaitReason, setting func() string) {
		if holds {
			found = append(found, Blocker{Reason: reason, Setting: setting()})
		}
	}
	if b.Phase == PhaseNew {
		add(b.NotBefore != nil && b.NotBefore.After(l.At), WaitNotBefore, func() string { return "notBefore=" + instant(*b.NotBefore) })
		add(b.RetryAt != nil && b.RetryAt.After(l.At), WaitBackOff, func() string { return "retryAt=" + instant(*b.RetryAt) })
	}
	// A pause that ends before a backup is due is not in its way.
	if l.Paused.InForce(l.At) && (b.Phase != PhaseNew || l.Paused.InForce(b.Due())) {
		found = append(found, Blocker{Reason: WaitQueuePaused, Setting: l.Paused.String(), Since: new(l.Paused.Since)})
	}
	none := func() string { return "" }
	add(!l.HasWorker, WaitNoWorker, none)
	needsInventory := b.Scope.HasPattern() || b.Scope.Kind == ScopeEverythingBut
	add(l.Synced && !l.Reachable && needsInventory, WaitClusterUnreachable, none)
	add(l.Unavailable[b.Location], WaitStorageUnavailable, func() string { return "storageLocation=" + b.Location })
	add(!resolvable, WaitScopeUnresolvable, none)
	return found
}

// String tells the pause as a setting: by whom, until when and why.
func (p *Pause) String() string {
	var b strings.Builder
	b.WriteString("paused")
	if p.By != "" {
		b.WriteString(" by " + p.By)
	}
	if p.Until != nil {
		b.WriteString(" until " + instant(*p.Until))
	}
	if p.Reason != "" {
		b.WriteString(": " + p.Reason)
	}
	return b.String()
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }
