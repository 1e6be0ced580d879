package db_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// The invariants as dispatch.sql and the design state them. A violation starts
// with the sentence that does not hold.
const (
	invariant1 = "no backup is admitted while as many of its cluster are running as its limit allows"
	invariant2 = "no two running backups of a cluster share a namespace"
	invariant3 = "a Queued backup is never overtaken by a later one that it overlaps, if its enqueue was acknowledged before the later one's admission began"
	invariant4 = "a free slot, a worker with room and an admissible backup never stand beside each other for longer than the wake-up"
	invariant5 = "each waiting backup names what it waits for, and that is true"
)

// history is what happened to one cluster's queue: its events in the order of
// their numbers, and what the callers measured. What leaves the queue, enters
// it again, is admitted or changes a claim does so behind the gate, so that for
// those events the order of the numbers is the order of the commits.
type history struct {
	events  []event
	backups map[int64]queued
	// changes are those of the namespaces, one for each event NamespacesChanged.
	changes [][]berth.Namespace
	// acknowledged is when the call that enqueued a backup returned, began when
	// the call to Dispatch started that gave out a fence; by one clock.
	acknowledged map[int64]time.Duration
	began        map[int64]time.Duration
}

type event struct {
	ID       int64
	Seq      *int64
	From, To *string
	Reason   string
	Message  string
	Blocker  *int64
	Fence    int64
	Slot     *int
}

// queued is the part of a backup that decides about its place and its claim.
type queued struct {
	Seq      int64
	ID       uuid.UUID
	Name     string
	OrderKey time.Time
	Spec     berth.Spec
}

func (q queued) before(other queued) bool {
	return cmp.Or(q.OrderKey.Compare(other.OrderKey), cmp.Compare(q.Seq, other.Seq)) < 0
}

// readHistory reads the events and the backups of a cluster.
func readHistory(tb testing.TB, conn *pgx.Conn, cluster string) history {
	tb.Helper()
	h := history{backups: map[int64]queued{}, acknowledged: map[int64]time.Duration{}, began: map[int64]time.Duration{}}
	h.events = collect[event](tb, conn, `
		SELECT id, seq, from_phase AS "from", to_phase AS "to", reason, message, blocker, fence, slot
		  FROM events WHERE cluster_id = (SELECT id FROM clusters WHERE name = $1) ORDER BY id`, cluster)
	type row struct {
		queued
		Spec json.RawMessage
	}
	for _, r := range collect[row](tb, conn, `
		SELECT seq, id, name, order_key, spec
		  FROM backups WHERE cluster_id = (SELECT id FROM clusters WHERE name = $1)`, cluster) {
		if err := json.Unmarshal(r.Spec, &r.queued.Spec); err != nil {
			tb.Fatal(err)
		}
		h.backups[r.Seq] = r.queued
	}
	return h
}

func connect(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func collect[T any](tb testing.TB, conn *pgx.Conn, sql string, args ...any) []T {
	tb.Helper()
	rows, err := conn.Query(context.Background(), sql, args...)
	if err != nil {
		tb.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	if err != nil {
		tb.Fatal(err)
	}
	return found
}

// replay goes through a history event by event. It decides with code of its
// own, none of the database's and none of package berth's.
type replay struct {
	history
	limit     int
	inventory map[string]berth.Namespace
	// names gives every namespace that anything mentions its bit in a claim;
	// the last bit stands for all that nobody mentions.
	names map[string]uint

	waiting map[int64]stint
	running map[int64]place

	admissions, afterWitness int
	violations               []string
}

// stint is one stay in the queue.
type stint struct {
	// again marks one that began behind the gate: its place is known from the
	// number of its event, not from when a call returned.
	again bool
	// witnessed: something was found in its way.
	witnessed bool
}

// place is what a running backup holds.
type place struct {
	claim uint64
	slot  int
}

const unnamed = 63

// check replays the history and lists every violation of invariants 1, 2, 3 and 5.
func (h history) check() *replay {
	r := &replay{
		history: h, limit: 1, inventory: map[string]berth.Namespace{}, names: map[string]uint{},
		waiting: map[int64]stint{}, running: map[int64]place{},
	}
	for _, change := range h.changes {
		for _, n := range change {
			r.name(n.Name)
		}
	}
	for _, b := range h.backups {
		for _, name := range slices.Concat(b.Spec.IncludedNamespaces, b.Spec.ExcludedNamespaces) {
			if !isGlob(name) {
				r.name(name)
			}
		}
	}
	changes := h.changes
	for _, e := range h.events {
		switch {
		case e.Reason == "LimitChanged":
			if _, err := fmt.Sscanf(e.Message[strings.LastIndex(e.Message, " ")+1:], "%d", &r.limit); err != nil {
				r.violate("event %d: %q names no limit", e.ID, e.Message)
			}
		case e.Reason == "NamespacesChanged":
			if len(changes) == 0 {
				r.violate("event %d: nobody changed the namespaces", e.ID)
				continue
			}
			for _, n := range changes[0] {
				r.inventory[n.Name] = n
			}
			changes = changes[1:]
		case e.Seq != nil:
			r.transition(e)
		}
	}
	return r
}

func (r *replay) violate(format string, args ...any) {
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}

func (r *replay) transition(e event) {
	seq, to := *e.Seq, berth.Phase(*e.To)
	switch {
	case e.Reason == "CancelRequested": // it goes on until its worker hears of it
	case berth.Phase(*e.From) == berth.PhaseQueued && to == berth.PhaseQueued:
		r.witness(e)
		s := r.waiting[seq]
		s.witnessed = true
		r.waiting[seq] = s
	case to == berth.PhaseQueued:
		delete(r.running, seq)
		r.waiting[seq] = stint{again: *e.From != ""}
	case to == berth.PhaseReadyToStart:
		r.admission(e)
	case to == berth.PhaseNew || to.Terminal():
		delete(r.running, seq)
		delete(r.waiting, seq)
	}
}

func (r *replay) admission(e event) {
	b := r.backups[*e.Seq]
	claim := r.claim(b)
	if len(r.running) >= r.limit {
		r.violate("%s: event %d admits %s beside %d running, the limit is %d", invariant1, e.ID, b.Name, len(r.running), r.limit)
	}
	for seq, other := range r.running {
		if other.claim&claim != 0 {
			r.violate("%s: event %d admits %s while %s runs", invariant2, e.ID, r.describe(b), r.describe(r.backups[seq]))
		}
		if other.slot == *e.Slot {
			r.violate("%s: event %d gives %s the slot %d of %s", invariant1, e.ID, b.Name, *e.Slot, r.backups[seq].Name)
		}
	}
	for seq, s := range r.waiting {
		earlier := r.backups[seq]
		acknowledged, returned := r.acknowledged[seq]
		if seq != b.Seq && earlier.before(b) && r.claim(earlier)&claim != 0 &&
			(s.again || returned && acknowledged < r.began[e.Fence]) {
			r.violate("%s: event %d admits %s while %s waits", invariant3, e.ID, r.describe(b), r.describe(earlier))
		}
	}
	r.admissions++
	if r.waiting[b.Seq].witnessed {
		r.afterWitness++
	}
	delete(r.waiting, b.Seq)
	r.running[b.Seq] = place{claim: claim, slot: *e.Slot}
}

// witness checks that what an event says to be in the way was there.
func (r *replay) witness(e event) {
	b := r.backups[*e.Seq]
	if e.Blocker == nil {
		if e.Reason != string(berth.WaitDispatch) {
			r.violate("%s: event %d names nothing in the way of %s", invariant5, e.ID, b.Name)
		}
		for seq, held := range r.running {
			if held.claim&r.claim(b) != 0 {
				r.violate("%s: event %d says that nothing is in the way of %s, %s runs", invariant5, e.ID, b.Name, r.backups[seq].Name)
			}
		}
		return
	}
	blocker := r.backups[*e.Blocker]
	held, runs := r.running[*e.Blocker]
	_, waits := r.waiting[*e.Blocker]
	claim, reason := held.claim, "RunningOverlap"
	if !runs {
		claim, reason = r.claim(blocker), "EarlierQueuedOverlap"
	}
	switch {
	case !runs && !(waits && blocker.before(b)):
		r.violate("%s: event %d says that %s waits for %s, which is not ahead", invariant5, e.ID, b.Name, blocker.Name)
	case claim&r.claim(b) == 0:
		r.violate("%s: event %d says that %s waits for %s, which it does not overlap", invariant5, e.ID, b.Name, blocker.Name)
	case e.Reason != reason:
		r.violate("%s: event %d says %s where %s holds", invariant5, e.ID, e.Reason, reason)
	}
}

// describe names a backup, its lists, and what it claims now.
func (r *replay) describe(b queued) string {
	claim := r.claim(b)
	var claimed []string
	for name, bit := range r.names {
		if claim&(1<<bit) != 0 {
			claimed = append(claimed, name)
		}
	}
	slices.Sort(claimed)
	return fmt.Sprintf("%s (%q but %q: %v)", b.Name, b.Spec.IncludedNamespaces, b.Spec.ExcludedNamespaces, claimed)
}

// name gives a namespace its bit.
func (r *replay) name(name string) uint64 {
	if name == "" || name == "*" {
		return 0
	}
	bit, known := r.names[name]
	if !known {
		if bit = uint(len(r.names)); bit >= unnamed {
			panic("a history has room for 63 namespaces")
		}
		r.names[name] = bit
	}
	return 1 << bit
}

func isGlob(entry string) bool { return strings.ContainsAny(entry, "*?[") }

// claim is what a backup claims in the inventory as it stands: a bit for each
// namespace.
func (r *replay) claim(b queued) uint64 {
	includes, excludes := b.Spec.IncludedNamespaces, b.Spec.ExcludedNamespaces
	var exists, labelled uint64
	for name, n := range r.inventory {
		if n.Exists {
			exists |= r.name(name)
		}
		if n.Excluded {
			labelled |= r.name(name)
		}
	}
	// Literals always count, patterns for what exists.
	count := func(list []string) (bits uint64) {
		for _, entry := range list {
			if isGlob(entry) {
				bits |= r.matching(entry) & exists
			} else {
				bits |= r.name(entry)
			}
		}
		return bits
	}
	everything := len(includes) == 0 || includes[0] == "*"
	switch {
	case everything && len(excludes) == 0:
		return ^uint64(0)
	case everything:
		return ^(count(excludes) | labelled)
	}
	claim := count(includes) &^ labelled
	for _, entry := range excludes {
		claim &^= r.matching(entry)
	}
	return claim
}

// matching are the namespaces of a name that the entry matches, there or not.
func (r *replay) matching(entry string) (bits uint64) {
	for name, bit := range r.names {
		matched, err := path.Match(entry, name)
		if err != nil {
			panic(err)
		}
		if matched {
			bits |= 1 << bit
		}
	}
	return bits
}

// A checker that cannot fail proves nothing: each history here breaks one
// invariant and is reported with its sentence.
func TestHistoryCheckReportsViolations(t *testing.T) {
	t.Parallel()
	at := time.Unix(0, 0)
	some := func(seq int64, includes ...string) queued {
		return queued{Seq: seq, Name: fmt.Sprintf("b%d", seq), OrderKey: at.Add(time.Duration(seq)), Spec: berth.Spec{IncludedNamespaces: includes}}
	}
	transition := func(seq int64, from, to string) event { return event{Seq: &seq, From: &from, To: &to} }
	enqueued := func(seq int64) event { return transition(seq, "", "Queued") }
	admitted := func(seq int64, slot int) event {
		e := transition(seq, "Queued", "ReadyToStart")
		e.Slot, e.Fence = &slot, seq
		return e
	}
	waits := func(seq, blocker int64, reason string) event {
		e := transition(seq, "Queued", "Queued")
		e.Blocker, e.Reason = &blocker, reason
		return e
	}
	limit := func(n int) event {
		return event{Reason: "LimitChanged", Message: fmt.Sprintf("concurrentBackups from 1 to %d", n)}
	}
	appears := event{Reason: "NamespacesChanged"}
	tests := map[string]struct {
		history history
		want    []string
	}{
		"three at once with a limit of two": {
			history{events: []event{limit(2), enqueued(1), enqueued(2), enqueued(3), admitted(1, 1), admitted(2, 2), admitted(3, 3)}},
			[]string{invariant1},
		},
		"two in one slot": {
			history{events: []event{limit(2), enqueued(1), enqueued(2), admitted(1, 1), admitted(2, 1)}},
			[]string{invariant1},
		},
		"one admitted at a limit that was lowered": {
			history{events: []event{limit(2), enqueued(1), enqueued(2), admitted(1, 1), limit(1), admitted(2, 2)}},
			[]string{invariant1},
		},
		"a namespace shared by two that run": {
			history{events: []event{limit(2), enqueued(1), enqueued(4), admitted(1, 1), admitted(4, 2)}},
			[]string{invariant2},
		},
		"everything beside something": {
			history{events: []event{limit(2), enqueued(5), enqueued(1), admitted(1, 1), admitted(5, 2)}},
			[]string{invariant2},
		},
		"a pattern beside a namespace that appeared": {
			history{
				events:  []event{limit(2), enqueued(6), enqueued(7), admitted(6, 1), appears, admitted(7, 2)},
				changes: [][]berth.Namespace{{{Name: "new-1", Exists: true}}},
			},
			[]string{invariant2},
		},
		"one overtaken that was acknowledged": {
			history{
				events:       []event{limit(2), enqueued(1), enqueued(4), admitted(4, 1)},
				acknowledged: map[int64]time.Duration{1: 1}, began: map[int64]time.Duration{4: 2},
			},
			[]string{invariant3},
		},
		"one overtaken that was not acknowledged yet": {
			history{
				events:       []event{limit(2), enqueued(1), enqueued(4), admitted(4, 1)},
				acknowledged: map[int64]time.Duration{1: 3}, began: map[int64]time.Duration{4: 2},
			},
			nil,
		},
		"one overtaken that came back": {
			history{events: []event{limit(2), enqueued(1), enqueued(4), admitted(1, 1), transition(1, "ReadyToStart", "Queued"), admitted(4, 1)}},
			[]string{invariant3},
		},
		"a wait for one that does not overlap": {
			history{events: []event{limit(1), enqueued(1), enqueued(2), admitted(1, 1), waits(2, 1, "RunningOverlap")}},
			[]string{invariant5},
		},
		"a wait for one that comes later": {
			history{events: []event{limit(1), enqueued(1), enqueued(4), waits(1, 4, "EarlierQueuedOverlap")}},
			[]string{invariant5},
		},
		"a wait for the wrong reason": {
			history{events: []event{limit(1), enqueued(1), enqueued(4), admitted(1, 1), waits(4, 1, "EarlierQueuedOverlap")}},
			[]string{invariant5},
		},
		"nothing wrong": {
			history{events: []event{
				limit(2), enqueued(1), enqueued(2), enqueued(4), admitted(1, 1), waits(4, 1, "RunningOverlap"), admitted(2, 2),
				transition(1, "ReadyToStart", "Failed"), admitted(4, 1),
			}},
			nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.history.backups = map[int64]queued{
				1: some(1, "a"), 2: some(2, "b"), 3: some(3, "c"), 4: some(4, "a"), 5: some(0, "*"), 6: some(6, "new-1"), 7: some(7, "new-*"),
			}
			found := test.history.check().violations
			if len(found) != len(test.want) {
				t.Fatalf("violations: %q, want %d", found, len(test.want))
			}
			for i, violation := range found {
				if !strings.HasPrefix(violation, test.want[i]) {
					t.Errorf("violation %q, want one of %q", violation, test.want[i])
				}
			}
		})
	}
}
