package db_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

// leastSteps is how many steps the machine takes at least: the rule stands twice,
// and this is what holds the two together.
const leastSteps = 10000

// TestQueueMachine does whatever can be done to several clusters' queues in one
// database, in random order. After each step the database and the planner agree:
// on who is admitted, on every position and every reason, and report.audit is
// empty. BERTH_SOAK is for how long it goes on beyond its least number of steps.
func TestQueueMachine(t *testing.T) {
	t.Parallel()
	var soak time.Duration
	if text := os.Getenv("BERTH_SOAK"); text != "" {
		var err error
		if soak, err = time.ParseDuration(text); err != nil {
			t.Fatalf("BERTH_SOAK: %v", err)
		}
	}
	began := time.Now()
	// While one waits for its database the other thinks.
	machines := [2]*machine{}
	t.Run("in", func(t *testing.T) {
		for i := range machines {
			m := &machine{d: dbtest.New(t), goal: leastSteps / len(machines), until: began.Add(soak), taken: map[string]int{}}
			m.conn = connect(t, m.d.Direct)
			refuseWhatHasNoEvent(t, m.conn)
			machines[i] = m
			t.Run(fmt.Sprint("database ", i), func(t *testing.T) {
				t.Parallel()
				for !m.enough() {
					before := m.steps
					rapid.Check(t, m.run)
					if m.steps == before {
						t.Fatal("a run of the machine took no step")
					}
				}
				if hits := m.d.ConstraintHits(); len(hits) > 0 {
					t.Errorf("constraints were hit: %v", hits)
				}
			})
		}
	})
	steps, admitting, taken := 0, 0, map[string]int{}
	for _, m := range machines {
		steps += m.steps
		admitting += m.admitting
		for name, times := range m.taken {
			taken[name] += times
		}
	}
	took := time.Since(began)
	t.Logf("%d steps in %v, %v a step", steps, took.Round(time.Millisecond), (took / time.Duration(max(1, steps))).Round(time.Microsecond))
	t.Logf("%d of %d dequeues admitted", admitting, taken["dequeue"])
	for _, a := range actions {
		t.Logf("%6d × %s", taken[a.name], a.name)
		if taken[a.name] == 0 {
			t.Errorf("%s never took effect", a.name)
		}
	}
	if steps < leastSteps {
		t.Errorf("%d steps, want %d at least", steps, leastSteps)
	}
}

// machine is a database and what its runs, one after the other, share.
type machine struct {
	d    *dbtest.Database
	conn *pgx.Conn

	goal  int
	until time.Time

	runs, steps, admitting int
	taken                  map[string]int
	// failed says that rapid is looking for a shorter way to a failure.
	failed bool
}

func (m *machine) enough() bool { return !m.failed && m.steps >= m.goal && time.Now().After(m.until) }

// world is one run: clusters of its own in the machine's database.
type world struct {
	*machine
	ctx      context.Context
	clusters []*modelled
	// What is drawn from; generators are not shared.
	next       *rapid.Generator[action]
	cluster    *rapid.Generator[int]
	included   *rapid.Generator[[]string]
	excluded   *rapid.Generator[[]string]
	name       *rapid.Generator[string]
	priorities *rapid.Generator[int]
	locations  *rapid.Generator[string]
}

// modelled is what the test knows of a cluster and the database is not asked for.
type modelled struct {
	name, worker string
	id           int32
	made         int // backups
	// runs are those that have been given out and not been taken back, held what
	// they claim since, lost the others.
	runs []berth.Run
	held map[int64]berth.Claim
	lost []berth.Run
	// last is the queue after the last step.
	last *oracle
}

// enough wait: what is wrong with a longer queue is wrong with this one.
const enough = 8

var machineNames = []string{"a", "b", "web-0", "web-1", "new-0"}

func (m *machine) run(t *rapid.T) {
	if m.enough() {
		return
	}
	w := m.begin(t)
	defer w.end(t)
	passed := false
	defer func() { m.failed = m.failed || !passed }()
	// Several stretches, since rapid makes short ones.
	for range 5 {
		t.Repeat(map[string]func(*rapid.T){"step": w.step})
	}
	passed = true
}

func (w *world) step(t *rapid.T) {
	a := w.next.Draw(t, "action")
	c := w.clusters[w.cluster.Draw(t, "cluster")]
	t.Logf("%s: %s", c.name, a.name)
	a.do(w, t, c)
	w.steps++
	w.taken[a.name]++
	w.check(t, c)
}

func (m *machine) begin(t *rapid.T) *world {
	m.runs++
	w := &world{machine: m, ctx: context.Background(), next: drawAction()}
	for i := range rapid.IntRange(1, 3).Draw(t, "clusters") {
		c := &modelled{name: fmt.Sprintf("run-%d-%d", m.runs, i), held: map[int64]berth.Claim{}}
		c.worker = "worker of " + c.name
		w.must(t, m.d.AddCluster(w.ctx, c.name))
		w.must(t, m.conn.QueryRow(w.ctx, "SELECT id FROM clusters WHERE name = $1", c.name).Scan(&c.id))
		for _, location := range []string{"default", "east"} {
			w.must(t, m.d.SetStorageLocation(w.ctx, berth.StorageLocation{Cluster: c.name, Name: location, URL: "file:///data", Prefix: c.name + "/" + location}))
		}
		w.must(t, m.d.SetConcurrentBackups(w.ctx, c.name, rapid.IntRange(1, 3).Draw(t, "limit")))
		_, err := m.d.Renew(w.ctx, berth.Heartbeat{Cluster: c.name, Worker: c.worker, LeaseTTL: time.Hour})
		w.must(t, err)
		if rapid.IntRange(0, 3).Draw(t, "synced") > 0 {
			w.must(t, m.d.SyncNamespaces(w.ctx, c.name, []berth.Namespace{present("a"), present("b"), present("web-0"), labelled("new-0")}))
		}
		w.clusters = append(w.clusters, c)
	}
	w.cluster = rapid.IntRange(0, len(w.clusters)-1)
	w.name = rapid.SampledFrom(machineNames)
	glob := rapid.SampledFrom([]string{"web-*", "new-*", "?", "[ab]", "none-*"})
	literals := rapid.SliceOfNDistinct(rapid.SampledFrom(append([]string{"web-1", "ghost"}, machineNames...)), 1, 2, rapid.ID)
	globs := rapid.SliceOfNDistinct(glob, 1, 2, rapid.ID)
	w.included = rapid.OneOf(literals, literals, literals, literals, globs, globs,
		rapid.SliceOfNDistinct(rapid.OneOf(glob, w.name), 2, 3, rapid.ID),
		rapid.SampledFrom([][]string{nil, {"*"}, {""}}))
	w.excluded = rapid.OneOf(rapid.Just([]string(nil)), rapid.Just([]string(nil)), literals, globs)
	w.priorities = rapid.OneOf(rapid.Just(0), rapid.Just(0), rapid.SampledFrom([]int{-10080, -60, -1, 1, 60, 10080}), rapid.IntRange(-10080, 10080))
	w.locations = rapid.SampledFrom([]string{"", "default", "east"})
	return w
}

// end takes a run's clusters out of the database, so that the next ones find it
// as small as the first.
func (w *world) end(t *rapid.T) {
	var ids []int32
	for _, c := range w.clusters {
		ids = append(ids, c.id)
	}
	var batch pgx.Batch
	for _, table := range []string{"events", "departures", "relooks", "leases", "workers", "claims", "backups", "namespaces", "slots", "storage_locations"} {
		batch.Queue("DELETE FROM "+table+" WHERE cluster_id = ANY ($1)", ids)
	}
	batch.Queue("DELETE FROM clusters WHERE id = ANY ($1)", ids)
	w.must(t, w.conn.SendBatch(w.ctx, &batch).Close())
	if w.runs%10 == 0 {
		w.exec(t, "VACUUM")
	}
}

func (w *world) must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) exec(t *rapid.T, sql string, args ...any) {
	t.Helper()
	_, err := w.conn.Exec(w.ctx, sql, args...)
	w.must(t, err)
}

func (w *world) read(t *rapid.T, c *modelled) oracle {
	t.Helper()
	o, err := readOracle(w.ctx, w.conn, c.name, c.id, c.held)
	w.must(t, err)
	return o
}

// before is the queue as a step finds it.
func (w *world) before(t *rapid.T, c *modelled) oracle {
	t.Helper()
	if c.last == nil {
		return w.read(t, c)
	}
	return *c.last
}

func (w *world) queue(t *rapid.T, c *modelled) berth.Queue {
	t.Helper()
	q, err := w.d.Queue(w.ctx, berth.QueueOptions{Cluster: c.name, Limit: 1000})
	w.must(t, err)
	return q
}

// check holds after every step.
func (w *world) check(t *rapid.T, c *modelled) {
	t.Helper()
	o := w.read(t, c)
	wrong := o.differences(o.told)
	for _, finding := range o.findings {
		wrong = append(wrong, "report.audit: "+finding)
	}
	for _, mark := range o.untold {
		wrong = append(wrong, "a change of a witness has no event: "+mark)
	}
	for _, row := range o.rows {
		if row.Phase == berth.PhaseNew && row.Claims > 0 {
			wrong = append(wrong, fmt.Sprintf("%s is not due and has %d claims", row.Name, row.Claims))
		}
		// It waits for the namespaces, whoever else is in its way.
		if row.BlockedBy != nil && !row.Resolved {
			wrong = append(wrong, fmt.Sprintf("%s cannot be resolved and has witness %d", row.Name, *row.BlockedBy))
		}
		if row.Reason == "StartDeadlineExceeded" && (row.Phase != berth.PhaseFailed || row.FirstReadyAt != nil) {
			wrong = append(wrong, fmt.Sprintf("%s passed its start deadline, is %s and was admitted at %v", row.Name, row.Phase, row.FirstReadyAt))
		}
	}
	if len(wrong) > 0 {
		t.Fatalf("%s\nin the queue with %s", strings.Join(wrong, "\n"), o)
	}
	c.last = &o
}
