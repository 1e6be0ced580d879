package db_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
	"github.com/berth-backup/berth/internal/vectors"
)

// Velero's own cases of its queue, on the database; those that Berth answers
// differently on purpose stand in internal/vectors with their reasons.
// BERTH_VECTORS names a folder with others. The root package puts the same cases
// to the planner.
func TestVectorsQueueSQL(t *testing.T) {
	t.Parallel()
	folder := vectors.Folder("..")
	cases, err := vectors.Queue(folder)
	if err != nil {
		t.Fatal(err)
	}
	d := dbtest.New(t)
	conn := connect(t, d.URL)
	ran := 0
	for i, c := range cases {
		ran++
		t.Run(c.ID, func(t *testing.T) {
			v := &vector{t: t, d: d, conn: conn, cluster: fmt.Sprintf("vector-%d", i), runs: map[string]berth.Run{}}
			v.test(c)
		})
	}
	t.Logf("%d vectors of the queue ran", ran)
	if ran < 1 {
		t.Errorf("%s has no vector that could run", folder)
	}
}

// vector is one case in a cluster of its own.
type vector struct {
	t       *testing.T
	d       *dbtest.Database
	conn    *pgx.Conn
	cluster string
	runs    map[string]berth.Run
}

func (v *vector) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

func (v *vector) test(c vectors.Case) {
	if c.Difference != "" {
		v.t.Logf("not Velero's answer: %s", c.Difference)
	}
	possible := v.load(c)
	for i, step := range c.Steps {
		if step.Op == vectors.Refuse {
			if possible {
				v.t.Errorf("the state can be made: %+v", c.Backups)
			}
			continue
		}
		if !possible {
			v.t.Fatal("the state cannot be made")
		}
		v.step(c, i, step)
	}
}

// load makes the state that a case starts from. It cannot be where a backup is
// refused, or where one that is to run is not admitted.
func (v *vector) load(c vectors.Case) (possible bool) {
	ctx := context.Background()
	v.must(v.d.AddCluster(ctx, v.cluster))
	v.must(v.d.SetStorageLocation(ctx, berth.StorageLocation{
		Cluster: v.cluster, Name: berth.DefaultStorageLocation, URL: "file:///data", Prefix: v.cluster,
	}))
	_, err := v.d.Renew(ctx, berth.Heartbeat{Cluster: v.cluster, Worker: v.cluster, LeaseTTL: time.Hour})
	v.must(err)
	inventory := make([]berth.Namespace, len(c.Namespaces))
	for i, name := range c.Namespaces {
		inventory[i] = present(name)
	}
	v.must(v.d.SyncNamespaces(ctx, v.cluster, inventory))
	v.must(v.d.SetConcurrentBackups(ctx, v.cluster, len(c.Backups)+1))
	// Those that have been admitted come first in a case.
	for _, b := range c.Backups {
		if !v.bring(b) {
			return false
		}
	}
	v.must(v.d.SetConcurrentBackups(ctx, v.cluster, c.Limit))
	return true
}

// bring makes one backup of the phase that it starts from.
func (v *vector) bring(b vectors.Backup) (possible bool) {
	ctx := context.Background()
	phase := berth.Phase(b.Phase)
	// One of an imported object's phases never enters the queue.
	if phase == "" || !phase.Valid() {
		return true
	}
	if !v.enqueue(b) {
		return false
	}
	if phase == berth.PhaseQueued {
		return true
	}
	admitted := v.dequeue()
	if admitted != b.Name {
		return false
	}
	run := v.runs[b.Name]
	if phase == berth.PhaseReadyToStart {
		return true
	}
	v.must(v.d.Start(ctx, run))
	if phase == berth.PhaseInProgress {
		return true
	}
	if phase == berth.PhaseFailed {
		v.must(v.d.Finish(ctx, run, berth.Outcome{Phase: phase, Reason: "Failed"}))
		return true
	}
	v.must(v.d.Finalize(ctx, run, berth.Outcome{}))
	if phase == berth.PhaseFinalizing {
		return true
	}
	v.must(v.d.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseCompleted, Reason: "Completed"}))
	if phase == berth.PhaseDeleting {
		_, err := v.conn.Exec(ctx, `
			WITH deleting AS (UPDATE backups SET phase = 'Deleting' WHERE seq = $1 RETURNING *)
			INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason) SELECT clock_timestamp(), cluster_id, seq, 'Completed', phase, phase FROM deleting`, run.Seq)
		v.must(err)
	}
	return true
}

func (v *vector) enqueue(b vectors.Backup) (possible bool) {
	_, err := v.d.Enqueue(context.Background(), berth.Request{Cluster: v.cluster, Name: b.Name, Spec: spec(b.Include, b.Exclude)})
	if berth.CodeOf(err) == berth.CodeValidationFailed {
		return false
	}
	v.must(err)
	return true
}

// dequeue admits one more and gives its name; empty where nothing may start.
func (v *vector) dequeue() (name string) {
	done, err := v.d.Dispatch(context.Background(), berth.DispatchRequest{Cluster: v.cluster, Worker: v.cluster, Want: 1, LeaseTTL: time.Hour})
	v.must(err)
	for _, run := range done.Runs {
		v.runs[run.Name] = run
		name = run.Name
	}
	return name
}

func (v *vector) step(c vectors.Case, number int, step vectors.Step) {
	v.t.Helper()
	ctx := context.Background()
	switch step.Op {
	case vectors.SetPhase:
		run := v.runs[step.Subject]
		b, err := v.d.Backup(ctx, run.ID)
		v.must(err)
		if b.Phase == berth.PhaseReadyToStart {
			v.must(v.d.Start(ctx, run))
		}
		v.must(v.d.Finalize(ctx, run, berth.Outcome{}))
		v.must(v.d.Finish(ctx, run, berth.Outcome{Phase: berth.Phase(step.Phase), Reason: step.Phase}))
		return
	case vectors.Enqueue:
		subject := slices.IndexFunc(c.Backups, func(b vectors.Backup) bool { return b.Name == step.Subject })
		if !v.enqueue(c.Backups[subject]) {
			v.t.Errorf("step %d: %s is refused", number, step.Subject)
		}
	case vectors.Evaluate:
		before := v.queue()
		admitted := v.dequeue()
		v.checkWhy(before, admitted, number, step)
		if admitted != "" && admitted != step.Subject {
			v.must(v.d.Release(ctx, v.runs[admitted], "it was not asked for"))
		}
	default:
		v.t.Fatalf("step %d: unknown op %q", number, step.Op)
	}
	v.checkStep(number, step)
}

func (v *vector) queue() berth.Queue {
	v.t.Helper()
	q, err := v.d.Queue(context.Background(), berth.QueueOptions{Cluster: v.cluster, Limit: 1000})
	v.must(err)
	return q
}

// checkStep compares the subject's phase and the positions.
func (v *vector) checkStep(number int, step vectors.Step) {
	v.t.Helper()
	got := vectors.Expect{Why: step.Expect.Why, OtherPositions: map[string]int{}}
	all, err := v.d.Backups(context.Background(), berth.ListOptions{Cluster: v.cluster, Limit: 200})
	v.must(err)
	for _, b := range all.Items {
		if b.Name == step.Subject {
			got.Phase = string(b.Phase)
		}
	}
	for _, b := range v.queue().Waiting {
		if b.Name == step.Subject {
			got.Position = b.Queue.Position
		}
		if _, asked := step.Expect.OtherPositions[b.Name]; asked {
			got.OtherPositions[b.Name] = b.Queue.Position
		}
	}
	if diff := cmp.Diff(step.Expect, got, cmpopts.EquateEmpty()); diff != "" {
		v.t.Errorf("step %d: %s (-want +got):\n%s", number, step.Subject, diff)
	}
}

// checkWhy compares the vector's label with what is told.
func (v *vector) checkWhy(before berth.Queue, admitted string, number int, step vectors.Step) {
	v.t.Helper()
	at := slices.IndexFunc(before.Waiting, func(b berth.Backup) bool { return b.Name == step.Subject })
	var reason berth.WaitReason
	if at >= 0 {
		reason = before.Waiting[at].Queue.BlockedBy[0].Reason
	}
	isFull := len(before.Running) >= before.Settings.ConcurrentBackups
	overlaps := reason == berth.WaitRunningOverlap || reason == berth.WaitEarlierQueuedOverlap
	var agrees bool
	switch step.Expect.Why {
	case "started":
		agrees = admitted == step.Subject && reason == berth.WaitDispatch
	case "ignored":
		agrees = reason == ""
	case "limit_reached":
		agrees = admitted == "" && isFull && (overlaps || reason == berth.WaitNoFreeSlot)
	case "conflict":
		agrees = admitted != step.Subject && overlaps
	case "earlier_runnable":
		agrees = admitted != "" && admitted != step.Subject
	}
	if !agrees {
		v.t.Errorf("step %d: %s: want %s, admitted: %q, told: %q", number, step.Subject, step.Expect.Why, admitted, reason)
	}
}
