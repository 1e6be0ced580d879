package db_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

// TestWaitsAreTrueAtEveryMoment takes random queues step by step and checks
// after every step, whether anything was marked or not, that each waiting
// backup names what it waits for and that it is true, and, after a dequeue with
// room, that nothing admissible was left.
func TestWaitsAreTrueAtEveryMoment(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1)
	conn := connect(t, d.URL)
	for seed := range uint64(12) {
		w := &walk{
			t: t, d: d, conn: conn, rand: rand.New(rand.NewPCG(seed, 0)), cluster: fmt.Sprintf("c%d", seed),
			inventory: map[string]berth.Namespace{}, worker: true,
		}
		w.begin()
		for range 60 {
			step := w.step()
			w.check(step)
			if t.Failed() {
				t.Fatalf("seed %d, the last of these steps: %q", seed, w.steps)
			}
		}
	}
}

// walk is one random history of one cluster.
type walk struct {
	t         *testing.T
	d         *dbtest.Database
	conn      *pgx.Conn
	rand      *rand.Rand
	cluster   string
	inventory map[string]berth.Namespace
	changes   [][]berth.Namespace
	runs      []berth.Run
	worker    bool
	steps     []string
}

func (w *walk) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("after %q: %v", w.steps, err)
	}
}

func (w *walk) begin() {
	ctx := context.Background()
	w.must(w.d.AddCluster(ctx, w.cluster))
	w.must(w.d.SetStorageLocation(ctx, berth.StorageLocation{
		Cluster: w.cluster, Name: berth.DefaultStorageLocation, URL: "file:///data", Prefix: w.cluster,
	}))
	w.must(w.d.SetConcurrentBackups(ctx, w.cluster, 2))
	_, err := w.d.Renew(ctx, w.cluster, w.cluster, time.Hour, nil)
	w.must(err)
	w.change(true, present("a"), present("b"), present("web-0"))
}

func (w *walk) change(complete bool, namespaces ...berth.Namespace) {
	ctx := context.Background()
	var changed []berth.Namespace
	for _, n := range namespaces {
		if w.inventory[n.Name] != n && (n.Exists || w.inventory[n.Name].Exists) {
			changed = append(changed, n)
		}
		w.inventory[n.Name] = n
	}
	if len(changed) > 0 {
		w.changes = append(w.changes, changed)
	}
	if complete {
		w.must(w.d.SyncNamespaces(ctx, w.cluster, namespaces))
	} else {
		w.must(w.d.ChangeNamespaces(ctx, w.cluster, namespaces))
	}
}

// step does one thing and says what.
func (w *walk) step() (what string) {
	ctx := context.Background()
	defer func() { w.steps = append(w.steps, what) }()
	pick := func(entries ...string) string { return entries[w.rand.IntN(len(entries))] }
	takeRun := func() berth.Run {
		i := w.rand.IntN(len(w.runs))
		run := w.runs[i]
		w.runs = append(w.runs[:i], w.runs[i+1:]...)
		return run
	}
	n := w.rand.IntN(100)
	switch {
	case n < 35:
		var s berth.Spec
		switch w.rand.IntN(10) {
		case 0:
		case 1:
			s = spec([]string{""}, nil)
		case 2:
			s = spec(nil, []string{pick("a", "b", "new-0", "web-*", "new-*")})
		case 3, 4:
			s = spec([]string{pick("web-*", "new-*", "?")}, nil)
		case 5:
			s = spec([]string{"web-*", pick("a", "new-1")}, []string{pick("web-1", "web-0", "new-*")})
		default:
			s = spec([]string{pick("a", "b", "web-0", "web-1"), pick("new-0", "new-1", "ghost")}, nil)
		}
		b, err := w.d.Enqueue(ctx, berth.Request{Cluster: w.cluster, Name: fmt.Sprintf("b%d", len(w.steps)), Spec: s})
		w.must(err)
		return fmt.Sprintf("enqueue %s: %q but %q", b.Name, s.IncludedNamespaces, s.ExcludedNamespaces)
	case n < 60:
		want := w.rand.IntN(4)
		done, err := w.d.Dispatch(ctx, berth.DispatchRequest{Cluster: w.cluster, Worker: "w", Want: want, LeaseTTL: time.Hour})
		w.must(err)
		w.runs = append(w.runs, done.Runs...)
		if len(done.Runs) < want {
			return "dequeue with room"
		}
		return fmt.Sprintf("dequeue %v of %d", names(done.Runs), want)
	case n < 82 && len(w.runs) > 0:
		run := takeRun()
		switch {
		case n < 72:
			w.must(w.d.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"}))
			return "end " + run.Name
		case n < 77:
			w.must(w.d.Release(ctx, run, ""))
			return "release " + run.Name
		default:
			expire(w.t, w.d, run)
			_, err := w.d.Reap(ctx, 0)
			w.must(err)
			if w.rand.IntN(2) == 0 {
				endBackOff(w.t, w.d.URL, run.Seq)
				_, err := w.d.Dispatch(ctx, berth.DispatchRequest{Cluster: w.cluster})
				w.must(err)
			}
			return "reap " + run.Name
		}
	case n < 92:
		name := pick("a", "web-0", "web-1", "new-0", "new-1")
		change := berth.Namespace{Name: name, Exists: w.rand.IntN(3) > 0}
		change.Excluded = change.Exists && w.rand.IntN(3) == 0
		w.change(false, change)
		return fmt.Sprintf("change %+v", change)
	case n < 97:
		limit := 1 + w.rand.IntN(3)
		w.must(w.d.SetConcurrentBackups(ctx, w.cluster, limit))
		return fmt.Sprintf("limit %d", limit)
	case w.worker:
		w.must(w.d.Retire(ctx, w.cluster))
	default:
		_, err := w.d.Renew(ctx, w.cluster, w.cluster, time.Hour, nil)
		w.must(err)
	}
	w.worker = !w.worker
	return fmt.Sprintf("a worker: %v", w.worker)
}

func (w *walk) check(step string) {
	h := readHistory(w.t, w.conn, w.cluster)
	h.changes = w.changes
	for seq := range h.backups {
		h.acknowledged[seq] = -1 // every call returned before the next began
	}
	r := h.check()
	for _, violation := range r.violations {
		w.t.Errorf("after %q: %s", step, violation)
	}
	q, err := w.d.Queue(context.Background(), berth.QueueOptions{Cluster: w.cluster, Limit: 1000})
	w.must(err)
	// Those that are not due have no place and are in nobody's way.
	q.Waiting = slices.DeleteFunc(q.Waiting, func(b berth.Backup) bool {
		return b.Phase == berth.PhaseNew && b.Queue.BlockedBy[0].Reason == berth.WaitBackOff
	})
	if len(q.Running) != len(r.running) || len(q.Waiting) != len(r.waiting) {
		w.t.Errorf("after %q: %d run and %d wait, the events say %d and %d", step, len(q.Running), len(q.Waiting), len(r.running), len(r.waiting))
	}
	bySeq := map[string]int64{}
	for seq, b := range h.backups {
		bySeq[b.Name] = seq
	}
	for _, b := range q.Waiting {
		blocker := b.Queue.BlockedBy[0]
		ahead := r.ahead(bySeq[b.Name])
		if b.Queue.OverlappingAhead != len(ahead) {
			w.t.Errorf("after %q: %s says that %d ahead overlap, %d do", step, b.Name, b.Queue.OverlappingAhead, len(ahead))
		}
		var want berth.WaitReason
		switch {
		case !w.worker:
			want = berth.WaitNoWorker
		case len(ahead) > 0:
			reason, isAhead := ahead[bySeq[nameOf(blocker.Backup)]]
			if !isAhead {
				w.t.Errorf("after %q: %s: %s waits for %s, which is not in its way", step, invariant5, b.Name, nameOf(blocker.Backup))
			}
			want = reason
		case len(r.running) >= r.limit:
			want = berth.WaitNoFreeSlot
		default:
			want = berth.WaitDispatch
			if step == "dequeue with room" {
				w.t.Errorf("after %q: %s: %s still waits", step, invariant4, b.Name)
			}
		}
		if blocker.Reason != want {
			w.t.Errorf("after %q: %s: %s says %s, want %s", step, invariant5, b.Name, blocker.Reason, want)
		}
	}
}

func nameOf(ref *berth.BackupRef) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}

// ahead are the backups in the way of one that waits, and how they are.
func (r *replay) ahead(seq int64) map[int64]berth.WaitReason {
	b := r.backups[seq]
	claim := r.claim(b)
	found := map[int64]berth.WaitReason{}
	for other, p := range r.running {
		if p.claim&claim != 0 {
			found[other] = berth.WaitRunningOverlap
		}
	}
	for other := range r.waiting {
		if r.backups[other].before(b) && r.claim(r.backups[other])&claim != 0 {
			found[other] = berth.WaitEarlierQueuedOverlap
		}
	}
	return found
}
