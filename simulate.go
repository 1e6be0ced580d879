package berth

import (
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
)

// WhatIf is a change that is only thought of.
type WhatIf struct {
	// Add are backups that are submitted now. One without a phase is New where it
	// is not due yet, else Queued; one without an OrderKey or a Seq is put at the
	// end. Its ID tells it apart.
	Add []Standing
	// Cancel are waiting or running backups that are gone.
	Cancel []uuid.UUID
	// ConcurrentBackups is another limit; nil: the same.
	ConcurrentBackups *int
}

// With is the queue after a change; s stays as it is.
func (s Snapshot) With(change WhatIf) Snapshot {
	canceled := make(map[uuid.UUID]bool, len(change.Cancel))
	for _, id := range change.Cancel {
		canceled[id] = true
	}
	var backups []Standing
	last := int64(0)
	for _, b := range s.Backups {
		last = max(last, b.Seq)
		if !canceled[b.ID] {
			backups = append(backups, b)
		} else if b.Phase.Running() && s.Workers != nil {
			s.Workers = &WorkerRoom{MaxBackups: s.Workers.MaxBackups, Free: s.Workers.Free + 1}
		}
	}
	for _, b := range change.Add {
		last++
		backups = append(backups, s.submitted(b, last))
	}
	s.Backups = backups
	if change.ConcurrentBackups != nil {
		s.ConcurrentBackups = *change.ConcurrentBackups
	}
	return s
}

// submitted is b as it would enter the queue now.
func (s Snapshot) submitted(b Standing, seq int64) Standing {
	if b.Phase == "" {
		b.Phase = PhaseQueued
		if b.Due().After(s.At) {
			b.Phase = PhaseNew
		}
	}
	if b.OrderKey.IsZero() {
		b.OrderKey = OrderKey(s.At, b.NotBefore, 0)
	}
	if b.Seq == 0 {
		b.Seq = seq
	}
	return b
}

// Never is a run time of which no end is known: what waits for such a run is
// not predicted.
const Never time.Duration = -1

// Simulate predicts when each waiting backup starts, if each runs as long as
// told, counted from its admission, and nothing else is submitted or changed. A
// running one ends then, or now if that has passed. Those of which it cannot be
// told are left out: their start deadline comes first, or what keeps them, or
// one ahead, has no end that is known (a pause without an end, no worker, an
// unreachable cluster or location, an unresolvable scope, a run that takes Never).
//
// Whenever a run ends, a backup is due, a start deadline comes or the pause is
// over, as many are admitted as Plan admits.
func (s Snapshot) Simulate(runTime func(Standing) time.Duration) map[uuid.UUID]time.Time {
	sim := s.simulate(func(b Standing) run { return run{takes: runTime(b)} })
	starts := make(map[uuid.UUID]time.Time, len(sim.backups))
	for _, b := range sim.backups {
		if b.starts != nil {
			starts[b.ID] = *b.starts
		}
	}
	return starts
}

// run is how long a backup runs, and on what that is known.
type run struct {
	takes time.Duration // Never: no end is known
	// margin is how much longer it may well take.
	margin time.Duration
	rests  ground
}

// simulation is the queue at one instant of the future.
type simulation struct {
	*line
	at time.Time
	// backups are all, in the order of the queue; a place is an index in it.
	backups []*actor
	overlap *overlaps
	running int
	// endless counts the running ones of which no end is known.
	endless int
	// waiting counts those that may yet start.
	waiting int
	// ready are the places of queued ones that may start, and of some that may not
	// any more.
	ready  places
	events events
	// freed is the weakest ground, and freedMargin the greatest margin, of the ends
	// since something could last be admitted.
	freed       ground
	freedMargin time.Duration
}

// actor is one backup in a simulation.
type actor struct {
	*entrant
	state state
	run   run
	// inTheWay counts the active ones ahead that overlap.
	inTheWay int
	// readyAt is when the last of those went.
	readyAt time.Time
	// kept ones are never admitted: a setting without a known end keeps them.
	kept   bool
	starts *time.Time
	// margin is how much later it may well start.
	margin time.Duration
	// freeBy is when what was in its way may well have ended.
	freeBy time.Time
	// rests is the weakest ground that its start rests on.
	rests ground
}

// endMargin is how much later its run may well end. Start and length miss
// independently of each other, so that their squares add up.
func (b *actor) endMargin() time.Duration {
	return time.Duration(math.Hypot(float64(b.margin), float64(b.run.margin)))
}

type state int

const (
	stateNotDue state = iota
	stateQueued
	stateRunning
	stateEnded
	stateExpired
)

func (s Snapshot) simulate(runOf func(Standing) run) *simulation {
	sim := &simulation{line: s.line(), at: s.At}
	for _, part := range [][]*entrant{sim.line.running, sim.queued, sim.notDue} {
		for _, b := range part {
			sim.backups = append(sim.backups, &actor{entrant: b, run: runOf(*b.Standing), kept: b.kept()})
		}
	}
	slices.SortFunc(sim.backups, func(a, b *actor) int { return inOrder(a.entrant, b.entrant) })
	var claims []Claim
	for _, b := range sim.backups {
		claims = append(claims, b.claim)
	}
	sim.overlap = newOverlaps(claims)
	sim.enterAll()
	sim.play()
	return sim
}

// kept says whether a setting keeps b from starting whose end is not known.
func (b *entrant) kept() bool {
	return slices.ContainsFunc(b.settings, func(setting Blocker) bool {
		switch setting.Reason {
		case WaitNotBefore, WaitBackOff, WaitQueuePaused:
			return false
		}
		return true
	})
}

// enterAll is the first instant: what runs runs, what is queued arrives.
func (sim *simulation) enterAll() {
	for place, b := range sim.backups {
		if b.Phase.Running() {
			sim.runs(place, max(0, sim.left(b)))
		}
	}
	for place, b := range sim.backups {
		switch {
		case b.Phase.Running():
			continue
		case b.QueuedAt(sim.at):
			sim.arrive(place)
		default:
			sim.events.add(event{at: b.Due(), kind: eventDue, place: place})
		}
		sim.waiting++
		if b.StartDeadline != nil && !b.Admitted {
			sim.events.add(event{at: *b.StartDeadline, kind: eventDeadline, place: place})
		}
	}
	if sim.Paused.InForce(sim.at) && sim.Paused.Until != nil {
		sim.events.add(event{at: *sim.Paused.Until, kind: eventResume})
	}
}

// left is how long a running one still takes.
func (sim *simulation) left(b *actor) time.Duration {
	if b.StartedAt == nil {
		return b.run.takes
	}
	return b.run.takes - sim.at.Sub(*b.StartedAt)
}

func (sim *simulation) play() {
	for {
		sim.admit()
		if sim.waiting == 0 || len(sim.events) == 0 {
			return
		}
		if !sim.Paused.InForce(sim.at) {
			sim.freed, sim.freedMargin = ground{}, 0
		}
		sim.at = sim.events[0].at
		for len(sim.events) > 0 && !sim.events[0].at.After(sim.at) {
			sim.happen(heap.Pop(&sim.events).(event))
		}
	}
}

// happen takes an event that may be about one that has moved on.
func (sim *simulation) happen(e event) {
	b := sim.backups[e.place]
	switch {
	case e.kind == eventEnd:
		sim.running--
		sim.freed = weaker(sim.freed, weaker(b.rests, b.run.rests))
		sim.freedMargin = max(sim.freedMargin, b.endMargin())
		sim.leave(e.place, stateEnded)
	case e.kind == eventDue && b.state == stateNotDue:
		sim.arrive(e.place)
	case e.kind == eventDeadline && b.state == stateNotDue:
		b.state = stateExpired
		sim.waiting--
	case e.kind == eventDeadline && b.state == stateQueued:
		sim.waiting--
		sim.leave(e.place, stateExpired)
	}
}

// arrive gives a backup its place in the queue: it finds those ahead in its way,
// and is in the way of those behind.
func (sim *simulation) arrive(place int) {
	b := sim.backups[place]
	b.state = stateQueued
	for _, other := range sim.overlap.of(place) {
		o := sim.backups[other]
		if o.state == stateRunning || other < place {
			b.inTheWay++
		} else {
			o.inTheWay++
		}
	}
	sim.overlap.enter(place)
	sim.offer(place)
}

// leave takes an active one out of the way of those that it was in the way of:
// of every queued one if it ran, else of those behind it.
func (sim *simulation) leave(place int, to state) {
	b := sim.backups[place]
	ran := b.state == stateRunning
	rests, mayEnd := weaker(b.rests, b.run.rests), sim.at.Add(b.endMargin())
	// It might have started in time, were the ends of those that run known.
	unfounded := to == stateExpired && sim.endless > 0 && !b.kept
	if unfounded {
		b.rests, rests = noHistory, noHistory
	}
	b.state = to
	sim.overlap.leave(place)
	for _, other := range sim.overlap.of(place) {
		o := sim.backups[other]
		if o.state != stateQueued || !ran && other < place {
			continue
		}
		o.inTheWay--
		if ran || unfounded {
			o.rests = weaker(o.rests, rests)
		}
		if ran {
			if mayEnd.After(o.freeBy) {
				o.freeBy = mayEnd
			}
		}
		sim.offer(other)
	}
}

// offer makes a queued one a candidate if nothing is in its way.
func (sim *simulation) offer(place int) {
	b := sim.backups[place]
	if b.inTheWay == 0 && !b.kept {
		b.readyAt = sim.at
		heap.Push(&sim.ready, place)
	}
}

// admit starts the first that may start while there is a place.
func (sim *simulation) admit() {
	if sim.Paused.InForce(sim.at) {
		return
	}
	for sim.running < sim.places && len(sim.ready) > 0 {
		place := heap.Pop(&sim.ready).(int)
		b := sim.backups[place]
		if b.state != stateQueued || b.inTheWay > 0 {
			continue
		}
		if b.readyAt.Before(sim.at) {
			// It waited for nothing but a place.
			b.rests = weaker(b.rests, sim.freed)
			b.margin = sim.freedMargin
		}
		b.margin = max(b.margin, b.freeBy.Sub(sim.at))
		b.starts = new(sim.at)
		sim.waiting--
		sim.runs(place, b.run.takes)
	}
}

// runs makes one running that ends after so long. What it overlaps among the
// queued ones it was in the way of before, or is not: who starts has no queued
// one ahead that it overlaps.
func (sim *simulation) runs(place int, left time.Duration) {
	b := sim.backups[place]
	if b.state != stateQueued {
		sim.overlap.enter(place)
	}
	b.state = stateRunning
	sim.running++
	if b.run.takes >= 0 {
		sim.events.add(event{at: sim.at.Add(left), kind: eventEnd, place: place})
	} else {
		sim.endless++
	}
}

type eventKind int

const (
	eventEnd eventKind = iota
	eventDue
	eventDeadline
	eventResume
)

type event struct {
	at    time.Time
	kind  eventKind
	place int
}

// events is a heap, the next one first.
type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
func (e *events) add(next event) { heap.Push(e, next) }

// places is a heap, the earliest one first.
type places []int

func (p places) Len() int           { return len(p) }
func (p places) Less(i, j int) bool { return p[i] < p[j] }
func (p places) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *places) Push(x any)        { *p = append(*p, x.(int)) }
func (p *places) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}
