package berth_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/berth-backup/berth"
)

// noon is the instant of the tests' snapshots.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// idOf is a different id for each number.
func idOf(number int) uuid.UUID {
	var id uuid.UUID
	id[14], id[15] = byte(number>>8), byte(number)
	return id
}

// draw makes snapshots. Each test has its own, since generators cannot be shared
// by two that run at once.
type draw struct {
	names, entries *rapid.Generator[[]string]
	phases         *rapid.Generator[berth.Phase]
}

func newDraw() *draw {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d", "ab"})
	entry := rapid.OneOf(name, name, rapid.SampledFrom([]string{"a*", "?", "[a-c]", "zz", "", "*"}))
	return &draw{
		names:   rapid.SliceOfNDistinct(name, 0, 5, rapid.ID),
		entries: rapid.SliceOfN(entry, 0, 3),
		phases: rapid.SampledFrom([]berth.Phase{
			berth.PhaseQueued, berth.PhaseQueued, berth.PhaseQueued, berth.PhaseQueued, berth.PhaseQueued, berth.PhaseNew, berth.PhaseNew,
			berth.PhaseReadyToStart, berth.PhaseInProgress, berth.PhaseFinalizing, berth.PhaseCompleted, berth.PhaseDeleting,
		}),
	}
}

// scope is any that is not refused.
func (d *draw) scope(t *rapid.T) berth.Scope {
	scope, problems := berth.ScopeOf(d.entries.Draw(t, "includes"), d.entries.Draw(t, "excludes"))
	if problems != nil {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "ab"}).Draw(t, "name")
		scope, _ = berth.ScopeOf([]string{name}, nil)
	}
	return scope
}

func minutes(t *rapid.T, label string, from, to int) *time.Time {
	if !rapid.Bool().Draw(t, "has "+label) {
		return nil
	}
	return new(noon.Add(time.Duration(rapid.IntRange(from, to).Draw(t, label)) * time.Minute))
}

// standing is any backup of that number; a running one may hold what its scope
// does not claim any more.
func (d *draw) standing(t *rapid.T, number int) berth.Standing {
	b := berth.Standing{
		ID: idOf(number), Name: fmt.Sprintf("b%d", number), Seq: int64(number),
		Phase:    d.phases.Draw(t, "phase"),
		OrderKey: noon.Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "order key")) * time.Minute),
		Scope:    d.scope(t),
		Location: rapid.SampledFrom([]string{"default", "default", "default", "away"}).Draw(t, "location"),
		Admitted: rapid.Bool().Draw(t, "admitted"),
	}
	switch {
	case b.Phase.Waiting():
		b.NotBefore = minutes(t, "not before", -5, 10)
		b.RetryAt = minutes(t, "retry at", -5, 10)
		if rapid.IntRange(0, 2).Draw(t, "may expire") == 0 {
			b.StartDeadline = minutes(t, "deadline", -1, 15)
		}
	case b.Phase.Running():
		b.StartedAt = minutes(t, "started at", -30, 0)
		if rapid.Bool().Draw(t, "holds") {
			names := slices.Clone(d.names.Draw(t, "held"))
			slices.Sort(names)
			b.Held = &berth.Claim{All: rapid.IntRange(0, 4).Draw(t, "all") == 0, Names: names}
		}
	}
	return b
}

// snapshot is any state that can be: what runs is disjoint and has slots of its
// own, not always within the limit, which may have been lowered.
func (d *draw) snapshot(t *rapid.T) berth.Snapshot {
	s := berth.Snapshot{
		At:                noon,
		ConcurrentBackups: rapid.IntRange(1, 4).Draw(t, "limit"),
		HasWorker:         rapid.IntRange(0, 9).Draw(t, "workers") > 0,
		Reachable:         rapid.IntRange(0, 3).Draw(t, "reachable") > 0,
		Synced:            rapid.IntRange(0, 5).Draw(t, "synced") > 0,
		Unavailable:       map[string]bool{"away": rapid.Bool().Draw(t, "away")},
	}
	if rapid.Bool().Draw(t, "workers with caps") {
		s.Workers = &berth.WorkerRoom{MaxBackups: 9, Free: rapid.IntRange(0, 4).Draw(t, "room")}
	}
	if rapid.IntRange(0, 5).Draw(t, "paused") == 0 {
		s.Paused = &berth.Pause{Reason: "upgrade", By: "ada", Since: noon.Add(-time.Hour), Until: minutes(t, "until", -5, 20)}
	}
	for _, name := range d.names.Draw(t, "namespaces") {
		exists := rapid.IntRange(0, 3).Draw(t, "exists") > 0
		s.Namespaces = append(s.Namespaces, berth.Namespace{Name: name, Exists: exists, Excluded: exists && rapid.IntRange(0, 3).Draw(t, "excluded") == 0})
	}
	slots := rapid.Permutation([]int{1, 2, 3, 4, 5, 6}).Draw(t, "slots")
	var held []berth.Claim
	for number := range rapid.IntRange(0, 14).Draw(t, "backups") {
		b := d.standing(t, number)
		if b.Phase.Running() {
			claim := claimOf(s, b)
			if len(held) == len(slots) || slices.ContainsFunc(held, claim.Overlaps) {
				b.Phase, b.Held, b.StartedAt = berth.PhaseQueued, nil, nil
			} else {
				b.Slot = slots[len(held)]
				held = append(held, claim)
			}
		}
		s.Backups = append(s.Backups, b)
	}
	return s
}

func claimOf(s berth.Snapshot, b berth.Standing) berth.Claim {
	if b.Held != nil {
		return *b.Held
	}
	claim, _ := b.Scope.Claim(s.Namespaces, s.Synced)
	return claim
}

// pairwise is the rule as it reads, each backup compared with each: the oracle
// of the planner.
type pairwise struct{ s berth.Snapshot }

func before(a, b berth.Standing) bool {
	return cmp.Or(a.OrderKey.Compare(b.OrderKey), cmp.Compare(a.Seq, b.Seq)) < 0
}

func (p pairwise) queued(b berth.Standing) bool {
	return !b.Expired(p.s.At) && b.QueuedAt(p.s.At)
}

// ahead of b is every running one and every queued one that is earlier.
func (p pairwise) ahead(a, b berth.Standing) bool {
	return a.ID != b.ID && (a.Phase.Running() || p.queued(a) && before(a, b))
}

// blockers are those ahead that overlap, in their order: running ones first.
func (p pairwise) blockers(b berth.Standing) []berth.Standing {
	var found []berth.Standing
	for _, a := range p.s.Backups {
		if p.ahead(a, b) && claimOf(p.s, a).Overlaps(claimOf(p.s, b)) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b berth.Standing) int {
		if a.Phase.Running() != b.Phase.Running() {
			if a.Phase.Running() {
				return -1
			}
			return 1
		}
		if before(a, b) {
			return -1
		}
		return 1
	})
	return found
}

func (p pairwise) running() int {
	n := 0
	for _, b := range p.s.Backups {
		if b.Phase.Running() {
			n++
		}
	}
	return n
}

// free is how many more may run.
func (p pairwise) free() int {
	free := p.s.ConcurrentBackups - p.running()
	if p.s.Workers != nil {
		free = min(free, p.s.Workers.Free)
	}
	return free
}

// settings are the reasons that hold whoever else is there.
func (p pairwise) settings(b berth.Standing) []berth.WaitReason {
	s := p.s
	var found []berth.WaitReason
	for _, r := range []struct {
		reason berth.WaitReason
		holds  bool
	}{
		{berth.WaitNotBefore, b.Phase == berth.PhaseNew && b.NotBefore != nil && b.NotBefore.After(s.At)},
		{berth.WaitBackOff, b.Phase == berth.PhaseNew && b.RetryAt != nil && b.RetryAt.After(s.At)},
		{berth.WaitQueuePaused, s.Paused != nil && (s.Paused.Until == nil || s.Paused.Until.After(s.At) && !(b.Phase == berth.PhaseNew && dueAfter(b, *s.Paused.Until)))},
		{berth.WaitNoWorker, !s.HasWorker},
		{berth.WaitClusterUnreachable, s.Synced && !s.Reachable && (b.Scope.HasPattern() || b.Scope.Kind == berth.ScopeEverythingBut)},
		{berth.WaitStorageUnavailable, s.Unavailable[b.Location]},
		{berth.WaitScopeUnresolvable, !s.Synced && b.Scope.HasPattern()},
	} {
		if r.holds {
			found = append(found, r.reason)
		}
	}
	return found
}

// dueAfter says whether a backup that is New comes only when, or after, that ends.
func dueAfter(b berth.Standing, end time.Time) bool {
	return b.NotBefore != nil && !b.NotBefore.Before(end) || b.RetryAt != nil && !b.RetryAt.Before(end)
}

func (p pairwise) reasons(b berth.Standing) []berth.WaitReason {
	found := p.settings(b)
	if !p.queued(b) {
		return found
	}
	blockers := p.blockers(b)
	if slices.ContainsFunc(blockers, func(a berth.Standing) bool { return a.Phase.Running() }) {
		found = append(found, berth.WaitRunningOverlap)
	}
	if slices.ContainsFunc(blockers, func(a berth.Standing) bool { return !a.Phase.Running() }) {
		found = append(found, berth.WaitEarlierQueuedOverlap)
	}
	if p.free() <= 0 {
		found = append(found, berth.WaitNoFreeSlot)
	}
	if len(found) == 0 {
		found = append(found, berth.WaitDispatch)
	}
	return found
}

func (p pairwise) inOrder(which func(berth.Standing) bool) []berth.Standing {
	var found []berth.Standing
	for _, b := range p.s.Backups {
		if which(b) {
			found = append(found, b)
		}
	}
	slices.SortFunc(found, func(a, b berth.Standing) int {
		return cmp.Or(a.OrderKey.Compare(b.OrderKey), cmp.Compare(a.Seq, b.Seq))
	})
	return found
}

// starting are the first of those that nothing is in the way of.
func (p pairwise) starting(want int) []berth.Standing {
	found := p.inOrder(func(b berth.Standing) bool {
		return p.queued(b) && len(p.settings(b)) == 0 && len(p.blockers(b)) == 0
	})
	return found[:min(len(found), max(0, min(want, p.free())))]
}

// wait is what of a Waiting can be told without knowing how it is told.
type wait struct {
	Name     string
	Position int
	Ahead    int
	Witness  string
	Reason   berth.WaitReason
}

func (p pairwise) waits() []wait {
	var found []wait
	for i, b := range p.inOrder(p.queued) {
		w := wait{Name: b.Name, Position: i + 1, Reason: p.reasons(b)[0]}
		if blockers := p.blockers(b); len(blockers) > 0 {
			witness := blockers[len(blockers)-1]
			w.Ahead, w.Witness = len(blockers), witness.Name
			if w.Reason == berth.WaitRunningOverlap && !witness.Phase.Running() {
				w.Reason = berth.WaitEarlierQueuedOverlap
			}
		}
		found = append(found, w)
	}
	for _, b := range p.inOrder(func(b berth.Standing) bool { return b.Phase.Waiting() && !b.Expired(p.s.At) && !p.queued(b) }) {
		found = append(found, wait{Name: b.Name, Reason: p.reasons(b)[0]})
	}
	return found
}

func waitsOf(plan berth.Plan) []wait {
	var found []wait
	for _, w := range plan.Waiting {
		told := wait{Name: w.Backup.Name, Position: w.Position, Ahead: w.OverlappingAhead, Reason: w.BlockedBy.Reason}
		if w.Witness != nil {
			told.Witness = w.Witness.Name
		}
		found = append(found, told)
	}
	return found
}

// after is the state once the plan was carried out.
func after(s berth.Snapshot, plan berth.Plan) berth.Snapshot {
	var left []berth.Standing
	for _, b := range s.Backups {
		if slices.ContainsFunc(plan.Expire, func(r berth.BackupRef) bool { return r.ID == b.ID }) {
			continue
		}
		if i := slices.IndexFunc(plan.Start, func(start berth.Start) bool { return start.Backup.ID == b.ID }); i >= 0 {
			b.Held = new(claimOf(s, b))
			b.Phase, b.Slot, b.StartedAt, b.Admitted = berth.PhaseReadyToStart, plan.Start[i].Slot, new(s.At), true
		}
		left = append(left, b)
	}
	s.Backups = left
	return withRoom(s, -len(plan.Start))
}

func namesOf(backups []berth.Standing) []string {
	var names []string
	for _, b := range backups {
		names = append(names, b.Name)
	}
	return names
}

// The planner says what comparing each backup with each says: who starts, and of
// each that waits its position, its blockers and its reason.
func TestPlanIsThePairwiseRule(t *testing.T) {
	t.Parallel()
	d := newDraw()
	rapid.Check(t, func(t *rapid.T) {
		s := d.snapshot(t)
		want := rapid.IntRange(0, 5).Draw(t, "want")
		plan := s.Plan(want)
		var starting []string
		for _, start := range plan.Start {
			starting = append(starting, start.Backup.Name)
		}
		if diff := gocmp.Diff(namesOf(pairwise{s}.starting(want)), starting); diff != "" {
			t.Errorf("start (-want +got):\n%s", diff)
		}
		var expired []string
		for _, b := range plan.Expire {
			expired = append(expired, b.Name)
		}
		expire := pairwise{s}.inOrder(func(b berth.Standing) bool { return b.Expired(s.At) })
		if diff := gocmp.Diff(namesOf(expire), expired); diff != "" {
			t.Errorf("expire (-want +got):\n%s", diff)
		}
		if diff := gocmp.Diff(pairwise{after(s, plan)}.waits(), waitsOf(plan)); diff != "" {
			t.Errorf("waiting (-want +got):\n%s", diff)
		}
	})
}

// The same of long queues, where the planner counts by sets.
func TestPlanOfLongQueuesIsThePairwiseRule(t *testing.T) {
	t.Parallel()
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			s := shaped(shape.lists, 300)
			plan := s.Plan(2)
			then := after(s, plan)
			for i, b := range then.Backups {
				// The claim is told once for each, not once for each pair.
				then.Backups[i].Held = new(claimOf(s, b))
			}
			if diff := gocmp.Diff(pairwise{then}.waits(), waitsOf(plan)); diff != "" {
				t.Errorf("waiting (-want +got):\n%s", diff)
			}
		})
	}
}

// Invariant 1: no backup is admitted while as many of its cluster are running as
// its limit allows. Invariant 2: no two running backups of a cluster share a
// namespace. And each has a slot of its own, the lowest that are free.
func TestPlanKeepsLimitAndNamespacesApart(t *testing.T) {
	t.Parallel()
	d := newDraw()
	rapid.Check(t, func(t *rapid.T) {
		s := d.snapshot(t)
		plan := s.Plan(rapid.IntRange(0, 5).Draw(t, "want"))
		running := pairwise{after(s, plan)}.inOrder(func(b berth.Standing) bool { return b.Phase.Running() })
		if len(plan.Start) > 0 && len(running) > s.ConcurrentBackups {
			t.Errorf("%d run, the limit is %d", len(running), s.ConcurrentBackups)
		}
		taken := map[int]bool{}
		for i, b := range running {
			if taken[b.Slot] || b.Slot < 1 {
				t.Errorf("%s has slot %d, another has it too", b.Name, b.Slot)
			}
			taken[b.Slot] = true
			for _, other := range running[:i] {
				if claimOf(s, b).Overlaps(claimOf(s, other)) {
					t.Errorf("%s and %s run and share a namespace", b.Name, other.Name)
				}
			}
		}
		for _, start := range plan.Start {
			for slot := 1; slot <= start.Slot; slot++ {
				if !taken[slot] || start.Slot > s.ConcurrentBackups {
					t.Errorf("%s starts in slot %d: %d is free, the limit is %d", start.Backup.Name, start.Slot, slot, s.ConcurrentBackups)
				}
			}
		}
	})
}

// Invariant 3: a queued backup is never overtaken by a later one that it
// overlaps, whatever keeps it from starting itself.
// Invariant 4: no place stays free beside a backup that may start.
func TestPlanOvertakesNobodyAndLeavesNothing(t *testing.T) {
	t.Parallel()
	d := newDraw()
	rapid.Check(t, func(t *rapid.T) {
		s := d.snapshot(t)
		byID := map[uuid.UUID]berth.Standing{}
		for _, b := range s.Backups {
			byID[b.ID] = b
		}
		plan := s.Plan(len(s.Backups))
		for _, w := range plan.Waiting {
			waits := byID[w.Backup.ID]
			if w.BlockedBy.Reason == berth.WaitDispatch {
				t.Errorf("%s waits for the dispatch that this is", waits.Name)
			}
			for _, start := range plan.Start {
				starts := byID[start.Backup.ID]
				if w.Position > 0 && before(waits, starts) && claimOf(s, waits).Overlaps(claimOf(s, starts)) {
					t.Errorf("%s overtakes %s", starts.Name, waits.Name)
				}
			}
		}
	})
}

// Invariant 5: each waiting backup names what it waits for, and that is true;
// explained are all reasons and all backups in the way, and what has to end.
func TestExplainTellsTheTruth(t *testing.T) {
	t.Parallel()
	d := newDraw()
	rapid.Check(t, func(t *rapid.T) {
		s := d.snapshot(t)
		oracle := pairwise{s}
		plan := s.Plan(0)
		byID := map[uuid.UUID]berth.Standing{}
		for _, b := range s.Backups {
			byID[b.ID] = b
		}
		for _, w := range plan.Waiting {
			b := byID[w.Backup.ID]
			e, ok := s.Explain(b.ID)
			if !ok {
				t.Fatalf("%s is not explained", b.Name)
			}
			if diff := gocmp.Diff(w, e.Waiting); diff != "" {
				t.Errorf("%s: plan and explanation differ (-plan +explain):\n%s", b.Name, diff)
			}
			if diff := gocmp.Diff(oracle.reasons(b), reasonsOf(e)); diff != "" {
				t.Errorf("%s: reasons (-want +got):\n%s", b.Name, diff)
			}
			checkBlockers(t, oracle, b, e)
			checkChain(t, oracle, byID, b, e)
		}
	})
}

func checkBlockers(t *rapid.T, oracle pairwise, b berth.Standing, e berth.Explanation) {
	var got []string
	for _, blocker := range e.Blockers {
		if blocker.Backup == nil {
			continue
		}
		got = append(got, blocker.Backup.Name)
		for _, name := range blocker.Namespaces {
			at := slices.IndexFunc(oracle.s.Backups, func(a berth.Standing) bool { return a.ID == blocker.Backup.ID })
			if !claimOf(oracle.s, b).Contains(name) || !claimOf(oracle.s, oracle.s.Backups[at]).Contains(name) {
				t.Errorf("%s and %s are said to share %s", b.Name, blocker.Backup.Name, name)
			}
		}
	}
	var want []string
	if oracle.queued(b) {
		want = namesOf(oracle.blockers(b))
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s: blockers (-want +got):\n%s", b.Name, diff)
	}
}

func checkChain(t *rapid.T, oracle pairwise, byID map[uuid.UUID]berth.Standing, b berth.Standing, e berth.Explanation) {
	if e.Witness == nil {
		if len(e.Chain) > 0 {
			t.Errorf("%s has a chain and no witness", b.Name)
		}
		return
	}
	for i, link := range e.Chain {
		next := byID[link.Backup.ID]
		blockers := oracle.blockers(b)
		if blockers[len(blockers)-1].ID != next.ID {
			t.Errorf("link %d: %s is not the furthest back in the way of %s", i, next.Name, b.Name)
		}
		isLast := i == len(e.Chain)-1
		ends := next.Phase.Running() || link.BlockedBy.Backup == nil
		if isLast != ends {
			t.Errorf("link %d: %s %s is the last: %v", i, next.Phase, next.Name, isLast)
		}
		b = next
	}
}

// The order in which rows are read changes nothing.
func TestPlanIgnoresTheOrderOfRows(t *testing.T) {
	t.Parallel()
	d := newDraw()
	rapid.Check(t, func(t *rapid.T) {
		s := d.snapshot(t)
		want := rapid.IntRange(0, 5).Draw(t, "want")
		shuffled := s
		shuffled.Backups = rapid.Permutation(s.Backups).Draw(t, "backups")
		shuffled.Namespaces = rapid.Permutation(s.Namespaces).Draw(t, "namespaces")
		if diff := gocmp.Diff(s.Plan(want), shuffled.Plan(want)); diff != "" {
			t.Errorf("(-in order +shuffled):\n%s", diff)
		}
	})
}

// Namespaces that the cluster does not have decide nothing, and are named only
// where a backup names them itself.
func TestAbsentNamespacesDecideNothing(t *testing.T) {
	t.Parallel()
	d := newDraw()
	rapid.Check(t, func(t *rapid.T) {
		s := d.snapshot(t)
		want := rapid.IntRange(0, 5).Draw(t, "want")
		there := s
		there.Namespaces = slices.DeleteFunc(slices.Clone(s.Namespaces), func(ns berth.Namespace) bool { return !ns.Exists })
		if diff := gocmp.Diff(there.Plan(want), s.Plan(want), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("plan (-without the absent ones +with them):\n%s", diff)
		}
		for _, b := range s.Backups {
			without, _ := there.Explain(b.ID)
			with, _ := s.Explain(b.ID)
			if diff := gocmp.Diff(without, with, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("explanation of %s (-without the absent ones +with them):\n%s", b.Name, diff)
			}
		}
	})
}

// A later backup, disjoint or not, changes nobody's position, blockers and witness
// of those before it; and a disjoint one nobody's at all.
func TestLaterBackupsChangeNobodysBlockers(t *testing.T) {
	t.Parallel()
	d := newDraw()
	rapid.Check(t, func(t *rapid.T) {
		s := d.snapshot(t)
		later := d.standing(t, len(s.Backups))
		later.Phase, later.OrderKey, later.StartDeadline, later.Held = berth.PhaseQueued, noon.Add(time.Hour), nil, nil
		if diff := gocmp.Diff(waitsBefore(s.Plan(0), later), waitsBefore(s.With(berth.WhatIf{Add: []berth.Standing{later}}).Plan(0), later), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-without +with):\n%s", diff)
		}
		later.Scope, _ = berth.ScopeOf([]string{"elsewhere"}, nil)
		later.OrderKey = noon.Add(time.Duration(rapid.IntRange(-6, 6).Draw(t, "key")) * time.Minute)
		s.Backups = slices.DeleteFunc(s.Backups, func(b berth.Standing) bool { return claimOf(s, b).Contains("elsewhere") })
		places := cmpopts.IgnoreFields(wait{}, "Position")
		if diff := gocmp.Diff(waitsBefore(s.Plan(0), later), waitsBefore(s.With(berth.WhatIf{Add: []berth.Standing{later}}).Plan(0), later), places, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("disjoint (-without +with):\n%s", diff)
		}
	})
}

// waitsBefore are those of all but one.
func waitsBefore(plan berth.Plan, but berth.Standing) []wait {
	return slices.DeleteFunc(waitsOf(plan), func(w wait) bool { return w.Name == but.Name })
}

// Priority ages by itself: the order of two is fixed when they are submitted.
func TestOrderKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		notBefore *time.Time
		priority  int
		want      time.Time
	}{
		{nil, 0, noon},
		{nil, 60, noon.Add(-time.Hour)},
		{nil, -1, noon.Add(time.Minute)},
		{new(noon.Add(time.Hour)), 30, noon.Add(30 * time.Minute)},
		{new(noon.Add(-time.Hour)), 0, noon},
	} {
		if got := berth.OrderKey(noon, c.notBefore, c.priority); !got.Equal(c.want) {
			t.Errorf("not before %v, priority %d: %v, want %v", c.notBefore, c.priority, got, c.want)
		}
	}
}

// The setting that is in the way is named with its value.
func TestSettingsAreNamed(t *testing.T) {
	t.Parallel()
	pattern, _ := berth.ScopeOf([]string{"a*"}, nil)
	literal, _ := berth.ScopeOf([]string{"a"}, nil)
	later := noon.Add(90 * time.Second)
	sound := berth.Snapshot{At: noon, ConcurrentBackups: 1, HasWorker: true, Reachable: true, Synced: true}
	for _, c := range []struct {
		name   string
		change func(*berth.Snapshot, *berth.Standing)
		want   berth.Blocker
	}{
		{"dispatch", func(*berth.Snapshot, *berth.Standing) {}, berth.Blocker{Reason: berth.WaitDispatch}},
		{"not before", func(_ *berth.Snapshot, b *berth.Standing) { b.Phase, b.NotBefore = berth.PhaseNew, &later }, berth.Blocker{Reason: berth.WaitNotBefore, Setting: "notBefore=2026-03-01T12:01:30Z"}},
		{"back-off", func(_ *berth.Snapshot, b *berth.Standing) { b.Phase, b.RetryAt = berth.PhaseNew, &later }, berth.Blocker{Reason: berth.WaitBackOff, Setting: "retryAt=2026-03-01T12:01:30Z"}},
		{"pause", func(s *berth.Snapshot, _ *berth.Standing) {
			s.Paused = &berth.Pause{Reason: "upgrade", By: "ada", Since: noon, Until: &later}
		}, berth.Blocker{Reason: berth.WaitQueuePaused, Setting: "paused by ada until 2026-03-01T12:01:30Z: upgrade", Since: &noon}},
		{"pause that is over", func(s *berth.Snapshot, _ *berth.Standing) { s.Paused = &berth.Pause{Until: &noon} }, berth.Blocker{Reason: berth.WaitDispatch}},
		{"no worker", func(s *berth.Snapshot, _ *berth.Standing) { s.HasWorker = false }, berth.Blocker{Reason: berth.WaitNoWorker}},
		{"unreachable", func(s *berth.Snapshot, b *berth.Standing) { s.Reachable, b.Scope = false, pattern }, berth.Blocker{Reason: berth.WaitClusterUnreachable}},
		{"unreachable, literals only", func(s *berth.Snapshot, _ *berth.Standing) { s.Reachable = false }, berth.Blocker{Reason: berth.WaitDispatch}},
		{"storage", func(s *berth.Snapshot, b *berth.Standing) {
			s.Unavailable, b.Location = map[string]bool{"far": true}, "far"
		}, berth.Blocker{Reason: berth.WaitStorageUnavailable, Setting: "storageLocation=far"}},
		{"unresolvable", func(s *berth.Snapshot, b *berth.Standing) { s.Synced, b.Scope = false, pattern }, berth.Blocker{Reason: berth.WaitScopeUnresolvable}},
		{"no free slot", func(s *berth.Snapshot, _ *berth.Standing) {
			s.Backups = append(s.Backups, berth.Standing{ID: idOf(9), Phase: berth.PhaseInProgress, Held: &berth.Claim{}, Slot: 1})
		}, berth.Blocker{Reason: berth.WaitNoFreeSlot, Setting: "concurrentBackups=1"}},
		{"no room", func(s *berth.Snapshot, _ *berth.Standing) {
			s.Workers = &berth.WorkerRoom{MaxBackups: 3}
		}, berth.Blocker{Reason: berth.WaitNoFreeSlot, Setting: "maxBackups=3"}},
		{"room", func(s *berth.Snapshot, _ *berth.Standing) {
			s.Workers = &berth.WorkerRoom{MaxBackups: 3, Free: 1}
		}, berth.Blocker{Reason: berth.WaitDispatch}},
		{"no free slot before no room", func(s *berth.Snapshot, _ *berth.Standing) {
			s.Workers = &berth.WorkerRoom{MaxBackups: 3}
			s.Backups = append(s.Backups, berth.Standing{ID: idOf(9), Phase: berth.PhaseInProgress, Held: &berth.Claim{}, Slot: 1})
		}, berth.Blocker{Reason: berth.WaitNoFreeSlot, Setting: "concurrentBackups=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, b := sound, berth.Standing{ID: idOf(1), Phase: berth.PhaseQueued, Scope: literal}
			c.change(&s, &b)
			s.Backups = append(s.Backups, b)
			if diff := gocmp.Diff(c.want, s.Plan(0).Waiting[0].BlockedBy); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// reasonsOf are all that hold, each once, in the order of WaitReasons.
func reasonsOf(e berth.Explanation) []berth.WaitReason {
	var reasons []berth.WaitReason
	for _, b := range e.Blockers {
		if !slices.Contains(reasons, b.Reason) {
			reasons = append(reasons, b.Reason)
		}
	}
	return reasons
}
