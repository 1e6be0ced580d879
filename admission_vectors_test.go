package berth_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/internal/vectors"
)

// Velero's own cases of its queue, on the planner; those that Berth answers
// differently on purpose stand in internal/vectors with their reasons.
// BERTH_VECTORS names a folder with others.
func TestVectorsQueue(t *testing.T) {
	t.Parallel()
	folder := vectors.Folder(".")
	cases, err := vectors.Queue(folder)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, c := range cases {
		ran++
		t.Run(c.ID, func(t *testing.T) { testVector(t, c) })
	}
	t.Logf("%d vectors of the queue ran", ran)
	if ran < 1 {
		t.Errorf("%s has no vector that could run", folder)
	}
}

func testVector(t *testing.T, c vectors.Case) {
	if c.Difference != "" {
		t.Logf("not Velero's answer: %s", c.Difference)
	}
	s, possible := snapshotOf(c)
	for i, step := range c.Steps {
		if step.Op == vectors.Refuse {
			if possible {
				t.Errorf("the state can be made: %+v", s.Backups)
			}
			continue
		}
		if !possible {
			t.Fatal("the state cannot be made")
		}
		s = takeStep(t, s, i, step)
	}
}

// snapshotOf is the state that a case starts from. It cannot be where a scope is
// refused, or where two that run share a namespace.
func snapshotOf(c vectors.Case) (s berth.Snapshot, possible bool) {
	s = berth.Snapshot{At: noon, ConcurrentBackups: c.Limit, HasWorker: true, Reachable: true, Synced: true}
	for _, name := range c.Namespaces {
		s.Namespaces = append(s.Namespaces, berth.Namespace{Name: name, Exists: true})
	}
	var held []berth.Claim
	for i, b := range c.Backups {
		scope, problems := berth.ScopeOf(b.Include, b.Exclude)
		if problems != nil {
			return s, false
		}
		standing := berth.Standing{
			ID: idOf(i), Name: b.Name, Seq: int64(i), OrderKey: noon, Phase: berth.Phase(b.Phase), Scope: scope, Slot: len(held) + 1,
		}
		if standing.Phase.Running() {
			claim := claimOf(s, standing)
			if slices.ContainsFunc(held, claim.Overlaps) {
				return s, false
			}
			held = append(held, claim)
		}
		s.Backups = append(s.Backups, standing)
	}
	return s, true
}

func takeStep(t *testing.T, s berth.Snapshot, number int, step vectors.Step) berth.Snapshot {
	t.Helper()
	subject := slices.IndexFunc(s.Backups, func(b berth.Standing) bool { return b.Name == step.Subject })
	next := s
	next.Backups = slices.Clone(s.Backups)
	switch step.Op {
	case vectors.SetPhase:
		next.Backups[subject].Phase = berth.Phase(step.Phase)
		return next
	case vectors.Enqueue:
		next.Backups[subject].Phase = berth.PhaseQueued
		checkStep(t, next, number, step)
		return next
	case vectors.Evaluate:
		plan := s.Plan(1)
		checkWhy(t, s, plan, number, step)
		if len(plan.Start) > 0 && plan.Start[0].Backup.Name == step.Subject {
			next = after(s, plan)
		}
		checkStep(t, next, number, step)
		return next
	}
	t.Fatalf("step %d: unknown op %q", number, step.Op)
	return s
}

// checkStep compares the subject's phase and the positions.
func checkStep(t *testing.T, s berth.Snapshot, number int, step vectors.Step) {
	t.Helper()
	got := vectors.Expect{Why: step.Expect.Why, OtherPositions: map[string]int{}}
	for _, b := range s.Backups {
		if b.Name == step.Subject {
			got.Phase = string(b.Phase)
		}
	}
	for _, w := range s.Plan(0).Waiting {
		if w.Backup.Name == step.Subject {
			got.Position = w.Position
		}
		if slices.Contains(slices.Collect(maps.Keys(step.Expect.OtherPositions)), w.Backup.Name) {
			got.OtherPositions[w.Backup.Name] = w.Position
		}
	}
	if diff := cmp.Diff(step.Expect, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("step %d: %s (-want +got):\n%s", number, step.Subject, diff)
	}
}

// checkWhy compares the vector's label with the reasons that are explained.
func checkWhy(t *testing.T, s berth.Snapshot, plan berth.Plan, number int, step vectors.Step) {
	t.Helper()
	var starts string
	if len(plan.Start) > 0 {
		starts = plan.Start[0].Backup.Name
	}
	at := slices.IndexFunc(s.Backups, func(b berth.Standing) bool { return b.Name == step.Subject })
	e, waits := s.Explain(s.Backups[at].ID)
	holds := func(reasons ...berth.WaitReason) bool {
		return slices.ContainsFunc(reasons, func(r berth.WaitReason) bool { return slices.Contains(reasonsOf(e), r) })
	}
	var agrees bool
	switch step.Expect.Why {
	case "started":
		agrees = starts == step.Subject
	case "ignored":
		agrees = !waits
	case "limit_reached":
		agrees = holds(berth.WaitNoFreeSlot)
	case "conflict":
		agrees = holds(berth.WaitRunningOverlap, berth.WaitEarlierQueuedOverlap)
	case "earlier_runnable":
		agrees = starts != "" && starts != step.Subject
	}
	if !agrees {
		t.Errorf("step %d: %s: want %s, starts: %q, reasons: %v", number, step.Subject, step.Expect.Why, starts, reasonsOf(e))
	}
}
