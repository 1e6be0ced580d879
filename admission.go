package berth

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
)

// This file is the rule of admission as a function of one instant: which waiting
// backups of a cluster start now, and what each of the others waits for. The
// database states the same rule in SQL (db/sql/dispatch.sql and the function
// overlapping_predecessor); tests hold the two together. This one also answers
// what would be: dry runs, what-if and the predicted start.
//
//  1. No backup is admitted while as many of its cluster are running as its
//     limit allows.
//  2. No two running backups of a cluster share a namespace.
//  3. A Queued backup is never overtaken by a later one that it overlaps, if its
//     enqueue was acknowledged before the later one's admission began.
//  4. A free slot, a worker with room and an admissible backup never stand
//     beside each other for longer than the wake-up.
//  5. Each waiting backup names what it waits for, and that is true.

// Snapshot is one cluster's queue at one instant: everything that admission
// decides on. It is never changed by what is asked of it.
type Snapshot struct {
	At                time.Time
	ConcurrentBackups int
	// Paused is nil where the queue is not paused.
	Paused *Pause
	// HasWorker says whether some worker of the cluster is alive.
	HasWorker bool
	// Workers is what its workers have room for; nil: for any number.
	Workers *WorkerRoom
	// Reachable says whether the cluster's API was heard of lately; true where
	// its namespaces were never synced.
	Reachable bool
	// Synced says whether the cluster's namespaces were known completely once.
	Synced bool
	// Namespaces are those that the cluster has, in any order; absent ones among
	// them decide nothing.
	Namespaces []Namespace
	// Unavailable are the storage locations, by name, that cannot be reached.
	Unavailable map[string]bool
	// Backups are all waiting and running ones, in any order: it decides nothing.
	// Others among them are passed over.
	Backups []Standing
}

// WorkerRoom is how many backups the live workers of a cluster, each of which has
// a cap of its own, run at once at most, and how many more of them they take now.
type WorkerRoom struct {
	MaxBackups, Free int
}

// Standing is a waiting or running backup as admission sees it.
type Standing struct {
	ID   uuid.UUID
	Name string
	// Seq tells those of the same OrderKey apart: no two have the same.
	Seq      int64
	Phase    Phase
	OrderKey time.Time
	Scope    Scope
	// Held is what a running backup holds since it was admitted, whatever became
	// of the cluster's namespaces; nil: what its scope claims now.
	Held *Claim
	// Location is the name of its storage location.
	Location string
	// NotBefore and RetryAt, the end of a back-off, are when a New one is due.
	NotBefore, RetryAt *time.Time
	// StartDeadline is when it expires if it was not admitted before.
	StartDeadline *time.Time
	// Admitted says that it was admitted since its last retry: its StartDeadline is met.
	Admitted bool
	// Slot of a running one, from 1.
	Slot int
	// RunKey says which past runs tell how long it takes.
	RunKey RunKey
	// StartedAt is when a running one was admitted.
	StartedAt *time.Time
}

// OrderKey is a backup's place in its cluster's order, before the sequence
// number: when it was submitted, for which a due notBefore counts, less its
// priority in minutes. So priority ages by itself.
func OrderKey(enqueuedAt time.Time, notBefore *time.Time, priority int) time.Time {
	submitted := enqueuedAt
	if notBefore != nil && notBefore.After(submitted) {
		submitted = *notBefore
	}
	return submitted.Add(-time.Duration(priority) * time.Minute)
}

// Ref names the backup.
func (b Standing) Ref() BackupRef { return BackupRef{ID: b.ID, Name: b.Name} }

// Due is when a New backup becomes Queued; the zero time: at once.
func (b Standing) Due() time.Time {
	var due time.Time
	for _, at := range []*time.Time{b.NotBefore, b.RetryAt} {
		if at != nil && at.After(due) {
			due = *at
		}
	}
	return due
}

// Expired says whether a waiting backup's start deadline has come before it was
// ever admitted: it neither starts nor stands in anybody's way.
func (b Standing) Expired(at time.Time) bool {
	return b.Phase.Waiting() && !b.Admitted && b.StartDeadline != nil && !at.Before(*b.StartDeadline)
}

// QueuedAt says whether the backup has a place in the queue at that time: it is
// Queued, or it is New and due.
func (b Standing) QueuedAt(at time.Time) bool {
	return b.Phase == PhaseQueued || b.Phase == PhaseNew && !at.Before(b.Due())
}

// InForce says whether the pause is not over.
func (p *Pause) InForce(at time.Time) bool {
	return p != nil && (p.Until == nil || p.Until.After(at))
}

// Plan is what one dequeue does.
type Plan struct {
	// Start are those that are admitted, in the order of the queue.
	Start []Start
	// Expire are those whose start deadline has come, in the order of the queue.
	Expire []BackupRef
	// Waiting are all others that wait, as they stand when those above are gone:
	// the queued ones in the order of the queue, then those that are not due.
	Waiting []Waiting
}

// Start is one admission.
type Start struct {
	Backup BackupRef
	Slot   int
}

// Waiting is a waiting backup's place and what it waits for.
type Waiting struct {
	Backup BackupRef
	// Position counts from 1 in the order of the queue; 0 for one that is not due.
	Position int
	// OverlappingAhead counts the active backups ahead that share a namespace, at
	// most MaxOverlapping of them.
	OverlappingAhead int
	// Witness is, of those, the one furthest back in the queue: the last queued
	// one, else the last running one; nil if there is none. It is told whatever
	// the reason that counts.
	Witness *BackupRef
	// BlockedBy is what counts of all that is in the way: the first reason of
	// WaitReasons that holds, where of the two overlaps the witness's is meant.
	BlockedBy Blocker
}

// Plan tells what a dequeue that wants so many backups does.
func (s Snapshot) Plan(want int) Plan {
	l := s.line()
	starting := l.startable(min(want, l.places-len(l.running)))
	slots := l.freeSlots(len(starting))
	var p Plan
	for i, b := range starting {
		p.Start = append(p.Start, Start{Backup: b.Ref(), Slot: slots[i]})
	}
	for _, b := range l.expired {
		p.Expire = append(p.Expire, b.Ref())
	}
	l.admit(starting)
	p.Waiting = l.waiting()
	return p
}

// line is a snapshot put in order, with everybody's claim told.
type line struct {
	Snapshot
	inventory *inventory
	// places is how many can run at once, as the limit and the workers are.
	places int
	// All in the order of (OrderKey, Seq). The running ones are ahead of all queued
	// ones; those that are not due and the expired ones are in nobody's way.
	running, queued, notDue, expired []*entrant
}

// entrant is one backup of the line.
type entrant struct {
	*Standing
	claim Claim
	// settings are all that keep it from being admitted whoever else is there.
	settings []Blocker
}

func (s Snapshot) line() *line {
	l := &line{Snapshot: s, inventory: newInventory(s.Namespaces, s.Synced)}
	for i := range s.Backups {
		b := &s.Backups[i]
		switch {
		case b.Phase.Running():
			l.running = append(l.running, l.entrant(b))
		case b.Expired(s.At):
			l.expired = append(l.expired, l.entrant(b))
		case b.QueuedAt(s.At):
			l.queued = append(l.queued, l.entrant(b))
		case b.Phase.Waiting():
			l.notDue = append(l.notDue, l.entrant(b))
		}
	}
	for _, part := range [][]*entrant{l.running, l.queued, l.notDue, l.expired} {
		slices.SortFunc(part, inOrder)
	}
	l.places = s.ConcurrentBackups
	if s.Workers != nil {
		l.places = min(l.places, len(l.running)+s.Workers.Free)
	}
	return l
}

func (l *line) entrant(b *Standing) *entrant {
	if b.Phase.Running() && b.Held != nil {
		return &entrant{Standing: b, claim: *b.Held}
	}
	claim, resolvable := l.inventory.claim(b.Scope)
	if b.Phase.Running() {
		return &entrant{Standing: b, claim: claim}
	}
	return &entrant{Standing: b, claim: claim, settings: l.settings(b, resolvable)}
}

// inOrder is the order of the queue: earlier is smaller.
func inOrder(a, b *entrant) int {
	return cmp.Or(a.OrderKey.Compare(b.OrderKey), cmp.Compare(a.Seq, b.Seq))
}

// startable are the first n that may start, in the order of the queue.
//
// Invariant 1: n is what the limit, and the workers' room, leave.
// Invariants 2 and 3: ahead of a queued backup is every running one and every
// earlier queued one, also one that is kept from starting itself; who overlaps
// none of them may start. Of two that overlap, the later has the earlier ahead:
// so all that may start are disjoint, and any number of them starts at once.
// Invariant 4: it is all of those, up to n.
func (l *line) startable(n int) []*entrant {
	var found []*entrant
	ahead := newPredecessors()
	for _, b := range l.running {
		ahead.add(b.claim)
	}
	for _, b := range l.queued {
		if len(found) >= n {
			break
		}
		if len(b.settings) == 0 && ahead.last(b.claim) < 0 {
			found = append(found, b)
		}
		ahead.add(b.claim)
	}
	return found
}

// freeSlots are the n lowest that nobody has; n is no more than the limit leaves.
func (l *line) freeSlots(n int) []int {
	taken := map[int]bool{}
	for _, b := range l.running {
		taken[b.Slot] = true
	}
	var free []int
	for slot := 1; len(free) < n; slot++ {
		if !taken[slot] {
			free = append(free, slot)
		}
	}
	return free
}

// admit makes queued ones running.
func (l *line) admit(starting []*entrant) {
	if len(starting) == 0 {
		return
	}
	isStarting := make(map[*entrant]bool, len(starting))
	for _, b := range starting {
		isStarting[b] = true
	}
	l.queued = slices.DeleteFunc(l.queued, func(b *entrant) bool { return isStarting[b] })
	l.running = append(l.running, starting...)
	slices.SortFunc(l.running, inOrder)
}

// waiting tells of each waiting one what is in its way.
func (l *line) waiting() []Waiting {
	waiting := make([]Waiting, 0, len(l.queued)+len(l.notDue))
	existing := l.inventory.existing()
	ahead := newPredecessors()
	for _, b := range l.running {
		ahead.add(b.claim)
	}
	for i, b := range l.queued {
		w := Waiting{Backup: b.Ref(), Position: i + 1, OverlappingAhead: min(ahead.count(b.claim), MaxOverlapping)}
		last := ahead.last(b.claim)
		if last >= 0 {
			w.Witness = new(l.at(last).Ref())
		}
		w.BlockedBy = l.blockedBy(b, last, existing)
		waiting = append(waiting, w)
		ahead.add(b.claim)
	}
	for _, b := range l.notDue {
		waiting = append(waiting, Waiting{Backup: b.Ref(), BlockedBy: b.settings[0]})
	}
	return waiting
}

// at counts the running ones first, then the queued ones.
func (l *line) at(number int) *entrant {
	if number < len(l.running) {
		return l.running[number]
	}
	return l.queued[number-len(l.running)]
}
