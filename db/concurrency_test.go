package db_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
)

// TestConcurrentQueue runs four processes with two dispatchers each, enqueuers
// of every kind of scope, workers that finish, fail, give back or go silent,
// and somebody who changes the namespaces and the limit, and then checks
// invariants 1, 2, 3 and 5 in the event log. Dispatchers never poll, so that a
// lost wake-up (invariant 4) leaves the queue standing and fails the test.
func TestConcurrentQueue(t *testing.T) {
	t.Parallel()
	const backups = 950
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := newCrowd(t, ctx)
	c.run(backups)

	h := readHistory(t, connect(t, c.url), berth.DefaultCluster)
	h.changes = c.changes
	h.began = c.began
	for _, b := range h.backups {
		h.acknowledged[b.Seq] = c.acknowledged[b.ID]
	}
	r := h.check()
	for _, violation := range r.violations[:min(20, len(r.violations))] {
		t.Error(violation)
	}
	share := 100 * r.afterWitness / max(1, r.admissions)
	t.Logf("%d admissions of %d backups, %d %% after a witness, in %v; %d lost leases; run again: %v",
		r.admissions, len(h.backups), share, c.since(), c.lost.Load(), c.retries())
	if r.admissions < 1000 || share < 30 {
		t.Errorf("%d admissions, %d %% of them after a witness: want 1000 and 30 %% at least", r.admissions, share)
	}
	for _, s := range c.stores {
		if hits := s.ConstraintHits(); len(hits) > 0 {
			t.Errorf("constraints were hit: %v", hits)
		}
	}
	c.checkNothingIsLeft()
}

// crowd is everybody who works on one queue at once.
type crowd struct {
	t      *testing.T
	ctx    context.Context
	url    string
	stores []*db.Store
	start  time.Time
	// places bounds the active backups, so that the queue stays as long as a
	// queue is; who has all of them knows that every backup has ended.
	places chan struct{}
	runs   chan berth.Run
	// ended ticks for those who change the cluster.
	ended chan struct{}
	lost  atomic.Int32

	mu           sync.Mutex
	acknowledged map[uuid.UUID]time.Duration
	began        map[int64]time.Duration
	changes      [][]berth.Namespace
}

const (
	crowdNamespaces = 16
	crowdPlaces     = 24
)

func newCrowd(t *testing.T, ctx context.Context) *crowd {
	var present []string
	for i := range crowdNamespaces {
		present = append(present, fmt.Sprintf("ns-%02d", i))
	}
	d := newQueue(t, 4, present...)
	c := &crowd{
		t: t, ctx: ctx, url: d.URL, start: time.Now(),
		places: make(chan struct{}, crowdPlaces), runs: make(chan berth.Run, crowdPlaces), ended: make(chan struct{}, 1),
		acknowledged: map[uuid.UUID]time.Duration{}, began: map[int64]time.Duration{},
	}
	var inventory []berth.Namespace
	for _, name := range present {
		inventory = append(inventory, berth.Namespace{Name: name, Exists: true})
	}
	c.changes = append(c.changes, inventory)
	for range 4 {
		c.stores = append(c.stores, openStore(t, d.URL, 6))
	}
	return c
}

// openStore opens a store of its own, as another process would.
func openStore(tb testing.TB, databaseURL string, connections int) *db.Store {
	tb.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	query := u.Query()
	query.Set("pool_max_conns", fmt.Sprint(connections))
	u.RawQuery = query.Encode()
	s, err := db.Open(context.Background(), u.String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

func (c *crowd) since() time.Duration { return time.Since(c.start) }

func (c *crowd) retries() map[string]int {
	all := map[string]int{}
	for _, s := range c.stores {
		for state, n := range s.Retries() {
			all[state] += n
		}
	}
	return all
}

// run enqueues so many backups and returns when all of them have ended.
func (c *crowd) run(backups int) {
	ctx, stop := context.WithCancelCause(c.ctx)
	defer stop(nil)
	fail := func(err error) {
		if err != nil && ctx.Err() == nil {
			stop(err)
		}
	}
	var background, enqueuers sync.WaitGroup
	defer background.Wait()
	defer stop(nil)
	for _, s := range c.stores {
		kicks := []chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}
		background.Go(func() {
			fail(s.Listen(ctx, []string{db.ChannelQueue}, func() {
				for _, kick := range kicks {
					select {
					case kick <- struct{}{}:
					default:
					}
				}
			}))
		})
		for _, kick := range kicks {
			background.Go(func() { fail(c.dispatch(ctx, s, kick)) })
		}
	}
	for i := range 6 {
		background.Go(func() { fail(c.work(ctx, c.stores[i%len(c.stores)], rand.New(rand.NewPCG(1, uint64(i))))) })
	}
	background.Go(func() { fail(c.change(ctx, c.stores[0], rand.New(rand.NewPCG(2, 0)))) })
	const enqueuerCount = 4
	for i := range enqueuerCount {
		enqueuers.Go(func() {
			fail(c.enqueue(ctx, c.stores[i], rand.New(rand.NewPCG(3, uint64(i))), fmt.Sprintf("e%d", i), backups/enqueuerCount))
		})
	}
	enqueuers.Wait()
	for range crowdPlaces {
		select {
		case c.places <- struct{}{}:
		case <-ctx.Done():
			if c.ctx.Err() == nil {
				c.t.Fatal(context.Cause(ctx))
			}
			for name, wait := range waits(c.t, c.stores[0]) {
				c.t.Logf("%s: %s", name, wait)
			}
			c.t.Fatalf("%s: the queue stands still", invariant4)
		}
	}
}

// scope draws one of every kind of scope.
func scope(r *rand.Rand) (includes, excludes []string) {
	literal := func() string { return fmt.Sprintf("ns-%02d", r.IntN(crowdNamespaces)) }
	pick := func(entries ...string) string { return entries[r.IntN(len(entries))] }
	switch n := r.IntN(100); {
	case n < 50:
		for range 1 + r.IntN(3) {
			includes = append(includes, literal())
		}
	case n < 60: // exists or not, as it comes
		includes = []string{pick("tmp-0", "tmp-1", "tmp-2"), pick("ghost-0", "ghost-1", "ghost-2")}
	case n < 70:
		includes = []string{pick("ns-0[0-3]", "ns-1?", "tmp-*", "tmp-[0-1]", "gh*", "ns-0[57]")}
	case n < 78:
		includes, excludes = []string{pick("ns-0*", "tmp-*"), literal()}, []string{pick("ns-*3", "tmp-0", "ns-0[0-4]")}
	case n < 80:
		includes = []string{"*"}
	case n < 82:
	case n < 92:
		includes = []string{""}
	case n < 96:
		includes, excludes = []string{"*"}, []string{literal(), literal(), "tmp-0"}
	default:
		excludes = []string{pick("ns-*", "tmp-*", "ns-0?")}
	}
	return includes, excludes
}

func (c *crowd) enqueue(ctx context.Context, s *db.Store, r *rand.Rand, prefix string, backups int) error {
	for i := range backups {
		select {
		case c.places <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		includes, excludes := scope(r)
		b, err := s.Enqueue(ctx, berth.Request{
			Name: fmt.Sprintf("%s-%d", prefix, i), Spec: berth.Spec{IncludedNamespaces: includes, ExcludedNamespaces: excludes},
		})
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.acknowledged[b.ID] = c.since()
		c.mu.Unlock()
	}
	return nil
}

// dispatch dequeues whenever it is told to, and never otherwise.
func (c *crowd) dispatch(ctx context.Context, s *db.Store, kick <-chan struct{}) error {
	const want = 3
	for {
		select {
		case <-kick:
		case <-ctx.Done():
			return ctx.Err()
		}
		for {
			began := c.since()
			done, err := s.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", Want: want, LeaseTTL: time.Hour})
			if err != nil {
				return err
			}
			for _, run := range done.Runs {
				c.mu.Lock()
				c.began[run.Fence] = began
				c.mu.Unlock()
				c.runs <- run
			}
			if len(done.Runs) < want {
				break
			}
		}
	}
}

// work takes admitted backups to one of the ends that a run can have.
func (c *crowd) work(ctx context.Context, s *db.Store, r *rand.Rand) error {
	for {
		var run berth.Run
		select {
		case run = <-c.runs:
		case <-ctx.Done():
			return ctx.Err()
		}
		var err error
		ended := true
		switch n := r.IntN(100); {
		case n < 5:
			ended, err = false, s.Release(ctx, run, "the worker goes away")
		case n < 11:
			ended, err = c.goSilent(ctx, s, run)
		case n < 15:
			err = s.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailedValidation, Reason: "Invalid", ValidationErrors: []string{"no"}})
		default:
			err = take(ctx, s, run, r.IntN(4) == 0)
		}
		if err != nil {
			return err
		}
		if ended {
			<-c.places
			select {
			case c.ended <- struct{}{}:
			default:
			}
		}
	}
}

func take(ctx context.Context, s *db.Store, run berth.Run, withErrors bool) error {
	outcome := berth.Outcome{Phase: berth.PhaseCompleted, Reason: "Completed"}
	if withErrors {
		outcome = berth.Outcome{Phase: berth.PhasePartiallyFailed, Reason: "PartiallyFailed", Errors: 1}
	}
	if err := s.Start(ctx, run); err != nil {
		return err
	}
	if err := s.Progress(ctx, run, berth.Progress{ItemsBackedUp: 1, TotalItems: 2}); err != nil {
		return err
	}
	if err := s.Finalize(ctx, run, outcome); err != nil {
		return err
	}
	return s.Finish(ctx, run, outcome)
}

// goSilent is a worker that starts, loses its lease and comes back too late.
func (c *crowd) goSilent(ctx context.Context, s *db.Store, run berth.Run) (ended bool, err error) {
	if err := s.Start(ctx, run); err != nil {
		return false, err
	}
	conn := connect(c.t, c.url)
	if _, err := conn.Exec(ctx, "UPDATE leases SET expires_at = clock_timestamp() - interval '1 hour' WHERE seq = $1 AND fence = $2", run.Seq, run.Fence); err != nil {
		return false, err
	}
	if _, err := s.Reap(ctx, 0); err != nil {
		return false, err
	}
	c.lost.Add(1)
	endBackOff(c.t, c.url, run.Seq)
	for what, err := range lateWrites(ctx, s, run) {
		if !errors.Is(err, berth.ErrLeaseLost) {
			return false, fmt.Errorf("%s with an old fence: %v, want %w", what, err, berth.ErrLeaseLost)
		}
	}
	// The last attempt's loss ends the backup; after any other it is back in
	// the queue, and may have come further by now.
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM events WHERE seq = $1 AND fence = $2 AND to_phase = 'Failed')", run.Seq, run.Fence).Scan(&ended)
	return ended, err
}

// lateWrites tries every write of a worker.
func lateWrites(ctx context.Context, s *db.Store, run berth.Run) map[string]error {
	return map[string]error{
		"Start":    s.Start(ctx, run),
		"Progress": s.Progress(ctx, run, berth.Progress{ItemsBackedUp: 9}),
		"Finalize": s.Finalize(ctx, run, berth.Outcome{}),
		"Finish":   s.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Late"}),
		"Release":  s.Release(ctx, run, "late"),
	}
}

// change lets namespaces come, go and change their exclude label, and moves
// the limit, once for every few backups that end.
func (c *crowd) change(ctx context.Context, s *db.Store, r *rand.Rand) error {
	now := map[string]berth.Namespace{}
	for round := 0; ; round++ {
		for range 3 {
			select {
			case <-c.ended:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if round%5 == 4 {
			if err := s.SetConcurrentBackups(ctx, berth.DefaultCluster, 2+r.IntN(6)); err != nil {
				return err
			}
			continue
		}
		name := fmt.Sprintf("tmp-%d", r.IntN(3))
		if r.IntN(4) == 0 {
			name = fmt.Sprintf("ns-%02d", r.IntN(crowdNamespaces))
		}
		n := berth.Namespace{Name: name, Exists: r.IntN(4) > 0, Excluded: r.IntN(4) == 0}
		if !n.Exists {
			n.Excluded = false
		}
		former, known := now[name]
		if n == former || !known && n == (berth.Namespace{Name: name, Exists: name[:2] == "ns"}) {
			continue // writes no event
		}
		now[name] = n
		if err := s.ChangeNamespaces(ctx, berth.DefaultCluster, []berth.Namespace{n}); err != nil {
			return err
		}
		c.changes = append(c.changes, []berth.Namespace{n})
	}
}

// checkNothingIsLeft: who ended holds nothing and waits for nothing.
func (c *crowd) checkNothingIsLeft() {
	type left struct {
		Active, Witnesses, Claims, Leases, Slots int
	}
	found := collect[left](c.t, connect(c.t, c.url), `
		SELECT (SELECT count(*) FROM backups WHERE phase NOT IN ('Completed', 'PartiallyFailed', 'Failed', 'FailedValidation')) AS active,
		       (SELECT count(*) FROM backups WHERE blocked_by IS NOT NULL) AS witnesses,
		       (SELECT count(*) FROM claims) AS claims, (SELECT count(*) FROM leases) AS leases,
		       (SELECT count(*) FROM slots s JOIN clusters c ON c.id = s.cluster_id WHERE s.slot > c.concurrent_backups) AS slots`)
	if diff := cmp.Diff([]left{{}}, found); diff != "" {
		c.t.Errorf("left when all have ended (-want +got):\n%s", diff)
	}
}
