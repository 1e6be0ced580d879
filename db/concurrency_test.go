package db_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
)

// TestConcurrentQueue runs four processes with two dispatchers each, enqueuers
// of every kind of scope, workers that finish, fail, give back or go silent, two
// cancellers, a reaper, and somebody who changes the namespaces and the limit, for
// 20 s at least, and then checks invariants 1, 2, 3 and 5 in the event log.
// Dispatchers never poll, and after every 150 backups nobody enqueues until all have
// ended: so a lost wake-up (invariant 4) leaves the queue standing and fails the test.
func TestConcurrentQueue(t *testing.T) {
	t.Parallel()
	const backups, atLeast = 1200, 20 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := newCrowd(t, ctx)
	c.run(backups, atLeast)

	r := c.history().check()
	for _, violation := range r.violations[:min(20, len(r.violations))] {
		t.Error(violation)
	}
	share := 100 * r.afterWitness / max(1, r.admissions)
	t.Logf("%d admissions of %d backups, %d %% after a witness, in %v; %d lost leases, %d canceled while they waited; run again: %v",
		r.admissions, len(r.backups), share, c.since(), c.lost.Load(), c.canceled.Load(), c.retries())
	if r.admissions < 1000 || share < 30 {
		t.Errorf("%d admissions, %d %% of them after a witness: want 1000 and 30 %% at least", r.admissions, share)
	}
	if hits := c.hits(); hits > 0 {
		t.Errorf("constraints were hit %d times", hits)
	}
	if c.lost.Load() == 0 || c.canceled.Load() == 0 {
		t.Error("nobody went silent, or nobody canceled in time")
	}
	c.checkNothingIsLeft()
}

// The same crowd without what keeps it apart. With nothing at all it breaks the
// limit and lets two run on one namespace; with the last lines of defence alone it
// hits them, and no two run on one namespace or in one place.
func TestConcurrentQueueUnguarded(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, also ...string) *crowd {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		t.Cleanup(cancel)
		c := newCrowd(t, ctx)
		conn := connect(t, c.url)
		for _, sql := range append([]string{
			"ALTER TABLE backups DISABLE TRIGGER backups_guard_update",
			// Transactions linger before they commit, so that they meet.
			"CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(random() / 50); RETURN NULL; END'",
			"CREATE CONSTRAINT TRIGGER linger AFTER INSERT OR UPDATE OF phase ON backups DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION linger()",
		}, also...) {
			if _, err := conn.Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range c.stores {
			s.Unguard()
		}
		c.unguarded = true
		c.run(400, time.Hour)
		return c
	}
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		broke := map[string]int{}
		// On a busy machine few of them meet.
		for tries := 0; tries < 5 && (broke[invariant1] == 0 || broke[invariant2] == 0); tries++ {
			r := run(t, "DROP INDEX backups_slot", "ALTER TABLE backups DROP CONSTRAINT backups_running_disjoint").history().check()
			for _, v := range r.violations {
				invariant, _, _ := strings.Cut(v, ":")
				broke[invariant]++
			}
			t.Logf("%d admissions, violations: %v", r.admissions, broke)
		}
		for _, invariant := range []string{invariant1, invariant2} {
			if broke[invariant] == 0 {
				t.Errorf("nobody broke: %s", invariant)
			}
		}
	})
	t.Run("constraints", func(t *testing.T) {
		t.Parallel()
		hits := 0
		for tries := 0; tries < 5 && hits == 0; tries++ {
			c := run(t)
			r := c.history().check()
			hits += c.hits()
			t.Logf("%d admissions, constraints were hit %d times", r.admissions, hits)
			for _, v := range r.violations {
				if strings.HasPrefix(v, invariant2) {
					t.Error(v)
				}
			}
		}
		if hits == 0 {
			t.Error("no constraint was hit")
		}
	})
}

func (c *crowd) history() history {
	h := readHistory(c.t, connect(c.t, c.url), berth.DefaultCluster)
	h.changes, h.began = c.changes, c.began
	for _, b := range h.backups {
		h.acknowledged[b.Seq] = c.acknowledged[b.ID]
	}
	return h
}

// hits counts how often a last line of defence refused an admission.
func (c *crowd) hits() (hits int) {
	for _, s := range c.stores {
		for _, n := range s.ConstraintHits() {
			hits += n
		}
	}
	return hits
}

// crowd is everybody who works on one queue at once.
type crowd struct {
	t      *testing.T
	ctx    context.Context
	url    string
	stores []*db.Store
	pool   *pgxpool.Pool // past the stores
	start  time.Time
	// places bounds the active backups, so that the queue stays as long as a
	// queue is; who has all of them knows that every backup has ended.
	places chan struct{}
	runs   chan berth.Run
	// ended ticks for those who change the cluster.
	ended          chan struct{}
	lost, canceled atomic.Int32
	// targets are some that were enqueued, for the canceller.
	targets chan uuid.UUID
	// silent are the answers that those wait for who lost their lease.
	silent chan chan error
	// unguarded: nothing keeps the crowd apart, so that anything may go wrong.
	unguarded bool

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
		places: make(chan struct{}, crowdPlaces), runs: make(chan berth.Run, crowdPlaces), ended: make(chan struct{}, 1), targets: make(chan uuid.UUID, crowdPlaces),
		silent:       make(chan chan error),
		acknowledged: map[uuid.UUID]time.Duration{}, began: map[int64]time.Duration{},
	}
	var inventory []berth.Namespace
	for _, name := range present {
		inventory = append(inventory, berth.Namespace{Name: name, Exists: true})
	}
	c.changes = append(c.changes, inventory)
	pool, err := pgxpool.New(ctx, withConnections(t, d.Direct, 4))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	c.pool = pool
	for range 4 {
		c.stores = append(c.stores, openStore(t, d.URL, 6))
	}
	return c
}

// openStore opens a store of its own, as another process would.
func openStore(tb testing.TB, databaseURL string, connections int) *db.Store {
	tb.Helper()
	s, err := db.Open(context.Background(), withConnections(tb, databaseURL, connections))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// withConnections is a URL whose pool has so many connections at most.
func withConnections(tb testing.TB, databaseURL string, connections int) string {
	tb.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	query := u.Query()
	query.Set("pool_max_conns", fmt.Sprint(connections))
	u.RawQuery = query.Encode()
	return u.String()
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

// run enqueues so many backups, and goes on for so long, and returns when all of
// them have ended.
func (c *crowd) run(backups int, atLeast time.Duration) {
	ctx, stop := context.WithCancelCause(c.ctx)
	defer stop(nil)
	// Where nothing keeps them apart they meet errors, and go on.
	crew := func(work func() error) {
		err := work()
		for c.unguarded && ctx.Err() == nil {
			err = work()
		}
		if err != nil && ctx.Err() == nil {
			stop(err)
		}
	}
	var enqueued atomic.Int32
	var background, enqueuers sync.WaitGroup
	defer background.Wait()
	defer stop(nil)
	for _, s := range c.stores {
		kicks := []chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}
		background.Go(func() {
			crew(func() error {
				return s.Listen(ctx, []string{db.ChannelQueue}, func() {
					for _, kick := range kicks {
						select {
						case kick <- struct{}{}:
						default:
						}
					}
				})
			})
		})
		for _, kick := range kicks {
			background.Go(func() { crew(func() error { return c.dispatch(ctx, s, kick) }) })
		}
	}
	if c.unguarded {
		background.Go(func() { crew(func() error { return c.repair(ctx, c.stores[2]) }) })
	}
	for i := range 6 {
		background.Go(func() {
			crew(func() error { return c.work(ctx, c.stores[i%len(c.stores)], rand.New(rand.NewPCG(1, uint64(i)))) })
		})
	}
	for _, s := range c.stores[:2] {
		background.Go(func() { crew(func() error { return c.cancel(ctx, s) }) })
	}
	background.Go(func() { crew(func() error { return c.reap(ctx, c.stores[3]) }) })
	background.Go(func() { crew(func() error { return c.change(ctx, c.stores[0], rand.New(rand.NewPCG(2, 0))) }) })
	const enqueuerCount, perRound = 4, 150
	for round := 1; int(enqueued.Load()) < backups || c.since() < atLeast; round++ {
		goal := round * perRound
		if c.unguarded {
			goal = round * backups // the longer they meet, the better
		}
		for i := range enqueuerCount {
			enqueuers.Go(func() {
				more := func() bool {
					took := int(enqueued.Add(1)) <= goal
					if !took {
						enqueued.Add(-1)
					}
					return took
				}
				r := rand.New(rand.NewPCG(uint64(2+round), uint64(i)))
				crew(func() error {
					return c.enqueue(ctx, c.stores[i], r, fmt.Sprintf("e%d-%d-%d", i, round, r.IntN(1_000_000)), more)
				})
			})
		}
		enqueuers.Wait()
		if c.unguarded && ctx.Err() != nil || !c.awaitEmpty(ctx) {
			return
		}
		for range crowdPlaces {
			<-c.places
		}
	}
}

// awaitEmpty takes all places, and so waits until every backup has ended.
func (c *crowd) awaitEmpty(ctx context.Context) bool {
	for range crowdPlaces {
		select {
		case c.places <- struct{}{}:
		case <-ctx.Done():
			if c.unguarded {
				return false
			}
			if c.ctx.Err() == nil {
				c.t.Fatal(context.Cause(ctx))
			}
			for name, wait := range waits(c.t, c.stores[0]) {
				c.t.Logf("%s: %s", name, wait)
			}
			c.t.Fatalf("%s: the queue stands still", invariant4)
		}
	}
	return true
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

func (c *crowd) enqueue(ctx context.Context, s *db.Store, r *rand.Rand, prefix string, more func() bool) error {
	for i := 0; more(); i++ {
		select {
		case c.places <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		includes, excludes := scope(r)
		b, err := s.Enqueue(ctx, berth.Request{
			Name: fmt.Sprintf("%s-%d", prefix, i), Priority: r.IntN(3), Spec: berth.Spec{IncludedNamespaces: includes, ExcludedNamespaces: excludes},
		})
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.acknowledged[b.ID] = c.since()
		c.mu.Unlock()
		if r.IntN(20) == 0 {
			select {
			case c.targets <- b.ID:
			default:
			}
		}
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

// repair wakes those whose wake-up was lost, since there was no gate: it looks at
// everyone again, over and over.
func (c *crowd) repair(ctx context.Context, s *db.Store) error {
	for ctx.Err() == nil {
		if err := s.Remark(ctx, berth.DefaultCluster); err != nil {
			return err
		}
		if _, err := s.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster}); err != nil {
			return err
		}
		if _, err := c.pool.Exec(ctx, "SELECT pg_notify('berth_queue', '1'), pg_sleep(0.05)"); err != nil {
			return err
		}
	}
	return ctx.Err()
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
		n := r.IntN(100)
		if c.unguarded {
			n = 99 // of two in one place neither can be put back
		}
		switch {
		case n < 5:
			if err = s.Release(ctx, run, "the worker goes away"); err == nil {
				ended, err = c.endedBy(ctx, run, "to_phase = 'Canceled'")
			}
		case n < 11:
			ended, err = c.goSilent(ctx, s, run)
		case n < 15:
			err = s.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailedValidation, Reason: "Invalid", ValidationErrors: []string{"no"}})
		default:
			err = take(ctx, s, run, r.IntN(4) == 0)
		}
		// One that was dropped would keep its place from the others for good.
		for c.unguarded && err != nil && ctx.Err() == nil && !errors.Is(err, berth.ErrLeaseLost) {
			err = s.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"})
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
	if _, err := c.pool.Exec(ctx, "UPDATE leases SET expires_at = clock_timestamp() - interval '1 hour' WHERE seq = $1 AND fence = $2", run.Seq, run.Fence); err != nil {
		return false, err
	}
	reaped := make(chan error, 1)
	select {
	case c.silent <- reaped:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if err := <-reaped; err != nil {
		return false, err
	}
	c.lost.Add(1)
	if _, err := c.pool.Exec(ctx, endOfBackOff, run.Seq); err != nil {
		return false, err
	}
	for what, err := range lateWrites(ctx, s, run) {
		if !errors.Is(err, berth.ErrLeaseLost) {
			return false, fmt.Errorf("%s with an old fence: %v, want %w", what, err, berth.ErrLeaseLost)
		}
	}
	// The last attempt's loss ends the backup; after any other it is back in
	// the queue, and may have come further by now.
	return c.endedBy(ctx, run, "to_phase IN ('Failed', 'Canceled')")
}

// reap puts back what a lease was lost of.
func (c *crowd) reap(ctx context.Context, s *db.Store) error {
	for {
		select {
		case reaped := <-c.silent:
			_, err := s.Reap(ctx, 0)
			reaped <- err
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// endedBy says whether the run has such an event.
func (c *crowd) endedBy(ctx context.Context, run berth.Run, condition string) (ended bool, err error) {
	err = c.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM events WHERE seq = $1 AND fence = $2 AND "+condition+")", run.Seq, run.Fence).Scan(&ended)
	return ended, err
}

// cancel cancels some, in whatever phase they are by now.
func (c *crowd) cancel(ctx context.Context, s *db.Store) error {
	for {
		var id uuid.UUID
		select {
		case id = <-c.targets:
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, err := s.Cancel(ctx, id, "somebody"); err != nil {
			if berth.CodeOf(err) == berth.CodeStateConflict {
				continue // it was faster
			}
			return err
		}
		var waited bool
		err := c.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM events e JOIN backups b USING (seq)
			WHERE b.id = $1 AND from_phase IN ('New', 'Queued') AND to_phase = 'Canceled')`, id).Scan(&waited)
		if err != nil {
			return err
		}
		if waited {
			c.canceled.Add(1)
			<-c.places
		}
	}
}

// lateWrites tries every write of a worker.
func lateWrites(ctx context.Context, s *db.Store, run berth.Run) map[string]error {
	return map[string]error{
		"Start":    s.Start(ctx, run),
		"Progress": s.Progress(ctx, run, berth.Progress{ItemsBackedUp: 9}),
		"Finalize": s.Finalize(ctx, run, berth.Outcome{}),
		"Finish":   s.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Late"}),
		"Release":  s.Release(ctx, run, "late"),
		"GiveUp":   s.GiveUp(ctx, run, "Late", "late"),
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
		// Without a gate the events do not tell when a claim was amended.
		if round%5 == 4 || c.unguarded {
			// One that is cut short would leave places, as TestPlacesAboveTheLimitAreNobodys tells.
			if err := s.SetConcurrentBackups(context.WithoutCancel(ctx), berth.DefaultCluster, 2+r.IntN(6)); err != nil {
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
		// One that is interrupted may have written its event.
		c.changes = append(c.changes, []berth.Namespace{n})
		if err := s.ChangeNamespaces(ctx, berth.DefaultCluster, []berth.Namespace{n}); err != nil {
			return err
		}
	}
}

// checkNothingIsLeft: who ended holds nothing and waits for nothing.
func (c *crowd) checkNothingIsLeft() {
	type left struct {
		Active, Witnesses, Claims, Leases, Slots int
	}
	found := collect[left](c.t, connect(c.t, c.url), `
		SELECT (SELECT count(*) FROM backups WHERE phase NOT IN ('Completed', 'PartiallyFailed', 'Failed', 'FailedValidation', 'Canceled')) AS active,
		       (SELECT count(*) FROM backups WHERE blocked_by IS NOT NULL) AS witnesses,
		       (SELECT count(*) FROM claims) AS claims, (SELECT count(*) FROM leases) AS leases,
		       (SELECT count(*) FROM slots s JOIN clusters c ON c.id = s.cluster_id WHERE s.slot > c.concurrent_backups) AS slots`)
	if diff := cmp.Diff([]left{{}}, found); diff != "" {
		c.t.Errorf("left when all have ended (-want +got):\n%s", diff)
	}
}
