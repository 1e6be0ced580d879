package berth_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/berth-backup/berth"
)

// stepwise is the simulation as it reads: a whole plan at each event.
func stepwise(s berth.Snapshot, runTime func(berth.Standing) time.Duration) map[uuid.UUID]time.Time {
	starts, ends := map[uuid.UUID]time.Time{}, map[uuid.UUID]time.Time{}
	for _, b := range s.Backups {
		if took := runTime(b); b.Phase.Running() && took >= 0 {
			ends[b.ID] = s.At.Add(took)
			if b.StartedAt != nil {
				ends[b.ID] = b.StartedAt.Add(took)
			}
		}
	}
	for {
		plan := s.Plan(len(s.Backups))
		s = after(s, plan)
		for _, start := range plan.Start {
			b := s.Backups[slices.IndexFunc(s.Backups, func(b berth.Standing) bool { return b.ID == start.Backup.ID })]
			starts[b.ID] = s.At
			if took := runTime(b); took >= 0 {
				ends[b.ID] = s.At.Add(took)
			}
		}
		next, more := nextEvent(s, ends)
		if !more {
			return starts
		}
		s.At = next
		runs := len(s.Backups)
		s.Backups = slices.DeleteFunc(slices.Clone(s.Backups), func(b berth.Standing) bool {
			end, known := ends[b.ID]
			return b.Phase.Running() && known && !end.After(s.At)
		})
		s = withRoom(s, runs-len(s.Backups))
	}
}

// withRoom is s with that much more room for its workers.
func withRoom(s berth.Snapshot, more int) berth.Snapshot {
	if s.Workers != nil {
		s.Workers = &berth.WorkerRoom{MaxBackups: s.Workers.MaxBackups, Free: s.Workers.Free + more}
	}
	return s
}

func nextEvent(s berth.Snapshot, ends map[uuid.UUID]time.Time) (next time.Time, more bool) {
	consider := func(at time.Time) {
		if at.Before(s.At) {
			at = s.At
		}
		if !more || at.Before(next) {
			next, more = at, true
		}
	}
	for _, b := range s.Backups {
		if end, known := ends[b.ID]; b.Phase.Running() && known {
			consider(end)
		}
		if b.Phase == berth.PhaseNew && b.Due().After(s.At) {
			consider(b.Due())
		}
		if b.Phase.Waiting() && !b.Admitted && b.StartDeadline != nil && b.StartDeadline.After(s.At) {
			consider(*b.StartDeadline)
		}
	}
	if s.Paused != nil && s.Paused.Until != nil && s.Paused.Until.After(s.At) {
		consider(*s.Paused.Until)
	}
	return next, more
}

// anyRunTimes are some minutes for each backup, at times none or without end.
func anyRunTimes(t *rapid.T, s berth.Snapshot) func(berth.Standing) time.Duration {
	took := map[uuid.UUID]time.Duration{}
	for _, b := range s.Backups {
		took[b.ID] = time.Duration(rapid.IntRange(0, 20).Draw(t, "minutes")) * time.Minute
		if rapid.IntRange(0, 9).Draw(t, "never") == 0 {
			took[b.ID] = berth.Never
		}
	}
	return func(b berth.Standing) time.Duration { return took[b.ID] }
}

// The simulation predicts what planning anew at each event predicts.
func TestSimulateIsPlanAtEachEvent(t *testing.T) {
	t.Parallel()
	d := newDraw()
	rapid.Check(t, func(t *rapid.T) {
		s := d.snapshot(t)
		runTime := anyRunTimes(t, s)
		if diff := gocmp.Diff(stepwise(s, runTime), s.Simulate(runTime)); diff != "" {
			t.Errorf("(-stepwise +simulated):\n%s", diff)
		}
	})
}

// The first of the queue is never delayed by what stands behind it, however long
// that runs: what blocks it runs already, and the end that frees its namespaces
// also frees a place, which is its own.
func TestSimulateNeverDelaysTheFirst(t *testing.T) {
	t.Parallel()
	d := newDraw()
	rapid.Check(t, func(t *rapid.T) {
		s := d.snapshot(t)
		s.Backups = slices.DeleteFunc(s.Backups, func(b berth.Standing) bool { return b.Phase == berth.PhaseNew || b.Expired(s.At) })
		runTime := anyRunTimes(t, s)
		waiting := s.Plan(0).Waiting
		if len(waiting) == 0 {
			return
		}
		first := waiting[0].Backup.ID
		alone := s
		alone.Backups = slices.DeleteFunc(slices.Clone(s.Backups), func(b berth.Standing) bool { return b.Phase.Waiting() && b.ID != first })
		want, wantKnown := alone.Simulate(runTime)[first]
		got, gotKnown := s.Simulate(runTime)[first]
		if !got.Equal(want) || gotKnown != wantKnown {
			t.Errorf("alone %v %v, with others behind it %v %v", want, wantKnown, got, gotKnown)
		}
	})
}

// Who was not admitted when its start deadline came never starts, due or not, and
// stands in nobody's way from then on; who was admitted before has met it.
func TestSimulateStartDeadlines(t *testing.T) {
	t.Parallel()
	scope, _ := berth.ScopeOf([]string{"a"}, nil)
	other, _ := berth.ScopeOf([]string{"b"}, nil)
	in := func(minutes int) *time.Time { return new(noon.Add(time.Duration(minutes) * time.Minute)) }
	s := berth.Snapshot{At: noon, ConcurrentBackups: 2, HasWorker: true, Reachable: true, Unavailable: map[string]bool{"far": true}, Backups: []berth.Standing{
		{ID: idOf(1), Seq: 1, Name: "kept", Phase: berth.PhaseQueued, OrderKey: noon, Scope: scope, Location: "far", StartDeadline: in(5)},
		{ID: idOf(2), Seq: 2, Name: "behind", Phase: berth.PhaseQueued, OrderKey: noon, Scope: scope},
		{ID: idOf(3), Seq: 3, Name: "due too late", Phase: berth.PhaseNew, OrderKey: *in(9), NotBefore: in(9), Scope: other, StartDeadline: in(8)},
		{ID: idOf(4), Seq: 4, Name: "due in time, behind", Phase: berth.PhaseNew, OrderKey: *in(9), NotBefore: in(9), Scope: scope, StartDeadline: in(15)},
		{ID: idOf(5), Seq: 5, Name: "admitted before", Phase: berth.PhaseNew, OrderKey: *in(1), RetryAt: in(9), Scope: scope, StartDeadline: in(8), Admitted: true},
	}}
	got := s.Simulate(func(berth.Standing) time.Duration { return 10 * time.Minute })
	want := map[uuid.UUID]time.Time{idOf(2): *in(5), idOf(5): *in(15)}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is thought of changes nothing; it is gone, added or limited in the answer.
func TestWhatIf(t *testing.T) {
	t.Parallel()
	scope, _ := berth.ScopeOf([]string{"a"}, nil)
	s := berth.Snapshot{At: noon, ConcurrentBackups: 1, HasWorker: true, Reachable: true, Workers: &berth.WorkerRoom{MaxBackups: 2, Free: 1}, Backups: []berth.Standing{
		{ID: idOf(1), Seq: 1, Name: "runs", Phase: berth.PhaseInProgress, OrderKey: noon.Add(-time.Hour), Scope: scope, Slot: 1},
		{ID: idOf(2), Seq: 2, Name: "waits", Phase: berth.PhaseQueued, OrderKey: noon.Add(-time.Minute), Scope: scope},
	}}
	before := gocmp.Diff(berth.Plan{}, s.Plan(9))
	other, _ := berth.ScopeOf([]string{"b"}, nil)
	changed := s.With(berth.WhatIf{
		Add: []berth.Standing{
			{ID: idOf(3), Name: "added", Scope: other},
			{ID: idOf(4), Name: "later", Scope: other, NotBefore: new(noon.Add(time.Minute))},
			{ID: idOf(5), Name: "behind", Scope: other},
		},
		Cancel: []uuid.UUID{idOf(1)}, ConcurrentBackups: new(2),
	})
	got := changed.Plan(9)
	if diff := gocmp.Diff([]berth.Start{
		{Backup: berth.BackupRef{ID: idOf(2), Name: "waits"}, Slot: 1},
		{Backup: berth.BackupRef{ID: idOf(3), Name: "added"}, Slot: 2},
	}, got.Start); diff != "" {
		t.Errorf("start (-want +got):\n%s", diff)
	}
	want := []wait{
		{Name: "behind", Position: 1, Ahead: 1, Witness: "added", Reason: berth.WaitRunningOverlap},
		{Name: "later", Reason: berth.WaitNotBefore},
	}
	if diff := gocmp.Diff(want, waitsOf(got)); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	if now := gocmp.Diff(berth.Plan{}, s.Plan(9)); now != before {
		t.Errorf("what was only thought of came true:\n%s", now)
	}
}

// shapes are queues of n waiting backups that differ in how they overlap.
var shapes = []struct {
	name string
	// lists are the includes and excludes of the i-th of n.
	lists func(i, n int) (includes, excludes []string)
}{
	{"disjoint", func(i, _ int) ([]string, []string) { return []string{fmt.Sprintf("ns-%d", i)}, nil }},
	{"one hot namespace", func(int, int) ([]string, []string) { return []string{"hot"}, nil }},
	{"50 namespaces", func(i, _ int) ([]string, []string) { return []string{fmt.Sprintf("ns-%d", i%50)}, nil }},
	{"hot and own", func(i, _ int) ([]string, []string) { return []string{"hot", fmt.Sprintf("ns-%d", i)}, nil }},
	{"five of 50", func(i, _ int) ([]string, []string) {
		var names []string
		for k := range 5 {
			names = append(names, fmt.Sprintf("ns-%d", (i*7+k*11)%50))
		}
		return names, nil
	}},
	{"hot and two of 100", func(i, _ int) ([]string, []string) {
		return []string{[]string{"hot", "warm"}[i%2], fmt.Sprintf("ns-%d", i*7%100), fmt.Sprintf("ns-%d", i*13%100)}, nil
	}},
	{"everything", func(int, int) ([]string, []string) { return nil, nil }},
	{"everything in the middle", func(i, n int) ([]string, []string) {
		if i == n/2 {
			return nil, nil
		}
		return []string{fmt.Sprintf("ns-%d", i)}, nil
	}},
	{"everything-but and its hole", func(i, _ int) ([]string, []string) {
		if i%2 == 0 {
			return nil, []string{"ns-0", "ns-1", "ns-2"}
		}
		return []string{fmt.Sprintf("ns-%d", i%3)}, nil
	}},
	{"patterns", func(i, _ int) ([]string, []string) { return []string{fmt.Sprintf("ns-%d*", i%100)}, nil }},
}

// shaped is a queue of n waiting backups behind three that run.
func shaped(lists func(i, n int) (includes, excludes []string), n int) berth.Snapshot {
	s := berth.Snapshot{At: noon, ConcurrentBackups: 5, HasWorker: true, Reachable: true, Synced: true}
	for i := range 1000 {
		s.Namespaces = append(s.Namespaces, berth.Namespace{Name: fmt.Sprintf("ns-%d", i), Exists: true})
	}
	for i := range n {
		includes, excludes := lists(i, n)
		scope, problems := berth.ScopeOf(includes, excludes)
		if problems != nil {
			panic(problems)
		}
		s.Backups = append(s.Backups, berth.Standing{
			ID: idOf(i), Name: fmt.Sprintf("b%d", i), Seq: int64(i), Phase: berth.PhaseQueued,
			OrderKey: noon.Add(time.Duration(i) * time.Second), Scope: scope,
		})
	}
	for i := range 3 {
		s.Backups = append(s.Backups, berth.Standing{
			ID: idOf(n + i), Seq: int64(n + i), Phase: berth.PhaseInProgress, OrderKey: noon, Slot: i + 1, StartedAt: &noon,
			Held: &berth.Claim{Names: []string{fmt.Sprintf("ns-%d", i)}},
		})
	}
	return s
}

// A plan of ten thousand.
func BenchmarkPlan(b *testing.B) {
	for _, shape := range shapes {
		s := shaped(shape.lists, 10_000)
		b.Run(shape.name, func(b *testing.B) {
			for b.Loop() {
				s.Plan(1)
			}
		})
	}
}

// All that is in the way of the last of ten thousand.
func BenchmarkExplain(b *testing.B) {
	for _, shape := range shapes {
		s := shaped(shape.lists, 10_000)
		b.Run(shape.name, func(b *testing.B) {
			for b.Loop() {
				if _, ok := s.Explain(idOf(9_999)); !ok {
					b.Fatal("it does not wait")
				}
			}
		})
	}
}

// The predicted starts of two thousand.
func BenchmarkETAs(b *testing.B) {
	for _, shape := range shapes {
		s := shaped(shape.lists, 2_000)
		var h berth.History
		for i := range s.Backups {
			s.Backups[i].RunKey.Namespaces = fmt.Sprintf("key-%d", i%500)
			h = append(h, berth.PastRun{RunKey: s.Backups[i].RunKey, Took: time.Minute}, berth.PastRun{RunKey: s.Backups[i].RunKey, Took: time.Second})
		}
		b.Run(shape.name, func(b *testing.B) {
			for b.Loop() {
				if etas := s.ETAs(h); len(etas) != 2_000 {
					b.Fatalf("%d are told", len(etas))
				}
			}
		})
	}
}

// The whole future of two thousand.
func BenchmarkSimulate(b *testing.B) {
	for _, shape := range shapes {
		s := shaped(shape.lists, 2_000)
		b.Run(shape.name, func(b *testing.B) {
			for b.Loop() {
				if starts := s.Simulate(func(berth.Standing) time.Duration { return time.Minute }); len(starts) != 2_000 {
					b.Fatalf("%d start", len(starts))
				}
			}
		})
	}
}

// A plan of ten times as many backups takes about as long as ten plans, not as a
// hundred, whatever they overlap.
func TestPlanGrowsWithTheQueue(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			few, many := shaped(shape.lists, 200), shaped(shape.lists, 2_000)
			tenOfFew, oneOfMany := time.Hour, time.Hour
			for range 3 {
				began := time.Now()
				for range 10 {
					few.Plan(1)
				}
				tenOfFew = min(tenOfFew, time.Since(began))
				began = time.Now()
				many.Plan(1)
				oneOfMany = min(oneOfMany, time.Since(began))
			}
			if oneOfMany > 5*tenOfFew {
				t.Errorf("ten plans of 200 take %v, one of 2,000 takes %v", tenOfFew, oneOfMany)
			}
		})
	}
}
