package db_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-backup/berth"
)

// action is something that can be done to a cluster's queue. One that cannot be
// done now skips.
type action struct {
	name   string
	weight int
	do     func(*world, *rapid.T, *modelled)
}

var actions = []action{
	{"enqueue", 6, (*world).enqueue},
	{"enqueue many", 10, (*world).enqueueMany},
	{"enqueue a later disjoint one", 3, (*world).enqueueDisjoint},
	{"dequeue", 18, (*world).dequeue},
	{"mark", 5, (*world).mark},
	{"mark all", 4, (*world).markAll},
	{"start or finalize", 14, (*world).advance},
	{"report progress", 2, (*world).progress},
	{"finish", 12, (*world).finish},
	{"release", 3, (*world).release},
	{"reap", 5, (*world).reap},
	{"give up", 3, (*world).giveUp},
	{"write late", 2, (*world).writeLate},
	{"cancel", 4, (*world).cancel},
	{"retry", 4, (*world).retry},
	{"edit", 8, (*world).edit},
	{"pause", 1, (*world).pause},
	{"resume", 10, (*world).resume},
	{"limit", 3, (*world).limit},
	{"cap", 2, (*world).cap},
	{"worker goes", 1, (*world).workerGoes},
	{"worker comes", 12, (*world).workerComes},
	{"worker says its room", 3, (*world).workerSaysItsRoom},
	{"cluster answers", 8, (*world).clusterAnswers},
	{"cluster is silent", 1, (*world).clusterIsSilent},
	{"location goes", 1, (*world).locationGoes},
	{"location comes", 10, (*world).locationComes},
	{"namespace changes", 6, (*world).namespaceChanges},
	{"namespaces are listed", 3, (*world).namespacesAreListed},
	{"time passes", 8, (*world).timePasses},
	{"explain", 2, (*world).explain},
	{"read by pages", 1, (*world).readByPages},
}

// GoString is the action as rapid tells what it drew.
func (a action) GoString() string { return a.name }

// drawAction draws as the weights say. What rapid itself draws from a range or a
// list is mostly from its beginning.
func drawAction() *rapid.Generator[action] {
	var weighted []action
	for _, a := range actions {
		for range a.weight {
			weighted = append(weighted, a)
		}
	}
	coin := rapid.Bool()
	return rapid.Custom(func(t *rapid.T) action {
		place := 0
		for range 12 {
			place *= 2
			if coin.Draw(t, "coin") {
				place++
			}
		}
		return weighted[place*len(weighted)>>12]
	})
}

// forget says that the cluster took a run back: its worker's later writes are
// refused.
func (c *modelled) forget(i int) {
	c.lost = append(c.lost, c.runs[i])
	delete(c.held, c.runs[i].Seq)
	c.runs = slices.Delete(c.runs, i, i+1)
}

func (c *modelled) drawRun(t *rapid.T) int {
	if len(c.runs) == 0 {
		t.Skip("nothing runs")
	}
	return rapid.IntRange(0, len(c.runs)-1).Draw(t, "run")
}

func (w *world) drawSpec(t *rapid.T) berth.Spec {
	s := spec(w.included.Draw(t, "included"), w.excluded.Draw(t, "excluded"))
	s.StorageLocation = w.locations.Draw(t, "location")
	if _, problems := berth.ScopeOf(s.IncludedNamespaces, s.ExcludedNamespaces); problems != nil {
		s.ExcludedNamespaces = nil
	}
	return s
}

// drawInstant is nil, some time ago, or later by more than a run takes.
func drawInstant(t *rapid.T, label string) *time.Time {
	minutes := rapid.OneOf(rapid.Just(0), rapid.Just(0), rapid.IntRange(-90, -1), rapid.IntRange(60, 3000)).Draw(t, label)
	if minutes == 0 {
		return nil
	}
	return new(time.Now().Add(time.Duration(minutes) * time.Minute).Truncate(time.Microsecond))
}

func (w *world) drawRequest(t *rapid.T, c *modelled) berth.Request {
	c.made++
	r := berth.Request{
		Cluster: c.name, Name: fmt.Sprintf("b%d", c.made), Spec: w.drawSpec(t), Priority: w.priorities.Draw(t, "priority"), NotBefore: drawInstant(t, "notBefore"),
	}
	switch rapid.IntRange(0, 7).Draw(t, "startDeadline") {
	case 0, 1:
		after := time.Now()
		if r.NotBefore != nil && r.NotBefore.After(after) {
			after = *r.NotBefore
		}
		r.StartDeadline = new(after.Add(time.Duration(rapid.IntRange(60, 3000).Draw(t, "minutes")) * time.Minute))
	case 2:
		// It is over already; so is what it is not to start before.
		r.StartDeadline = new(time.Now().Add(-time.Second))
		if r.NotBefore != nil && !r.NotBefore.Before(*r.StartDeadline) {
			r.NotBefore = nil
		}
	}
	return r
}

// checkRoom says whether so many more may wait, and whether the store agrees.
func checkRoom(t *rapid.T, o oracle, more int, err error) (taken bool) {
	t.Helper()
	full := o.maxQueued > 0 && o.waiting()+more > o.maxQueued
	if full != (berth.CodeOf(err) == berth.CodeQueueFull) {
		t.Fatalf("%d wait of at most %d, %d more: %v", o.waiting(), o.maxQueued, more, err)
	}
	return !full
}

func (w *world) roomToGrow(t *rapid.T, c *modelled) oracle {
	t.Helper()
	o := w.before(t, c)
	if o.waiting() >= enough {
		t.Skip("enough wait")
	}
	return o
}

func (w *world) enqueue(t *rapid.T, c *modelled) {
	o := w.roomToGrow(t, c)
	r := w.drawRequest(t, c)
	b, err := w.d.Enqueue(w.ctx, r)
	if !checkRoom(t, o, 1, err) {
		return
	}
	w.must(t, err)
	if later := r.NotBefore != nil && r.NotBefore.After(time.Now()); later != (b.Phase == berth.PhaseNew) {
		t.Fatalf("%s is %s", b.Name, b.Phase)
	}
}

func (w *world) enqueueMany(t *rapid.T, c *modelled) {
	o := w.roomToGrow(t, c)
	requests := make([]berth.Request, rapid.IntRange(1, 4).Draw(t, "requests"))
	for i := range requests {
		requests[i] = w.drawRequest(t, c)
	}
	_, err := w.d.EnqueueMany(w.ctx, c.name, requests)
	if checkRoom(t, o, len(requests), err) {
		w.must(t, err)
	}
}

// enqueueDisjoint: a later disjoint backup changes nobody's blockers.
func (w *world) enqueueDisjoint(t *rapid.T, c *modelled) {
	o := w.roomToGrow(t, c)
	before := w.queue(t, c)
	c.made++
	alone := fmt.Sprintf("alone-%d", c.made)
	b, err := w.d.Enqueue(w.ctx, berth.Request{Cluster: c.name, Name: alone, Spec: spec([]string{alone}, nil), Priority: -berth.MaxPriority})
	if !checkRoom(t, o, 1, err) {
		return
	}
	w.must(t, err)
	after := w.queue(t, c)
	after.Waiting = slices.DeleteFunc(after.Waiting, func(q berth.Backup) bool { return q.ID == b.ID })
	// Who is behind it, for being asked for with as little priority or for later, may wait for it.
	told := func(q berth.Queue) (entries []berth.QueueEntry) {
		for _, waiting := range q.Waiting {
			if waiting.Queue.Position < b.Queue.Position && waiting.Queue.Position > 0 {
				entry := *waiting.Queue
				entry.ETA = nil
				// Of all that two wide ones share, its namespace has a name now.
				blocker := entry.BlockedBy[0]
				blocker.Namespaces = slices.DeleteFunc(slices.Clone(blocker.Namespaces), func(name string) bool { return name == alone })
				entry.BlockedBy = []berth.Blocker{blocker}
				entries = append(entries, entry)
			}
		}
		return entries
	}
	if diff := gocmp.Diff(told(before), told(after), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("a later disjoint backup changed what others wait for (-before +after):\n%s", diff)
	}
}

// dequeue: who is admitted is who the planner says, in its order, into its slots.
func (w *world) dequeue(t *rapid.T, c *modelled) {
	o := w.before(t, c)
	want := rapid.IntRange(1, 4).Draw(t, "want")
	if o.Workers != nil {
		if o.Workers.Free == 0 {
			t.Skip("the worker is full")
		}
		want = min(want, o.Workers.Free)
	}
	// Whoever dequeues is a worker.
	o.HasWorker = true
	plan := o.Plan(want)
	done, err := w.d.Dispatch(w.ctx, berth.DispatchRequest{Cluster: c.name, Worker: c.worker, Want: want, LeaseTTL: time.Hour})
	w.must(t, err)
	if diff := gocmp.Diff(startsOf(plan.Start), runsOf(done.Runs)); diff != "" {
		t.Fatalf("a dequeue of %d admits (-planner +database):\n%s\nof %s", want, diff, o)
	}
	for _, run := range done.Runs {
		w.admit(t, c, o, run)
	}
	if len(done.Runs) > 0 {
		w.admitting++
	}
	w.checkExpired(t, c, plan)
}

// admit remembers what an admitted backup holds, and checks what it is to take.
func (w *world) admit(t *rapid.T, c *modelled, o oracle, run berth.Run) {
	at := slices.IndexFunc(o.Backups, func(b berth.Standing) bool { return b.ID == run.ID })
	scope := o.Backups[at].Scope
	claim, resolvable := scope.Claim(o.Namespaces, o.Synced)
	if !resolvable {
		t.Fatalf("%s is admitted, and its scope cannot be resolved", run.Name)
	}
	c.runs = append(c.runs, run)
	c.held[run.Seq] = claim
	var want berth.Contents
	for _, n := range o.Namespaces {
		switch {
		case n.Exists && n.Excluded && scope.Contains(n.Name):
			want.Excluded = append(want.Excluded, n.Name)
		case n.Exists && !n.Excluded && scope.Contains(n.Name):
			want.Names = append(want.Names, n.Name)
		case !n.Exists && !claim.All && claim.Contains(n.Name):
			want.Missing = append(want.Missing, n.Name)
		}
	}
	sorted := cmpopts.SortSlices(cmp.Less[string])
	if diff := gocmp.Diff(want, run.Contents, cmpopts.EquateEmpty(), sorted); diff != "" {
		t.Fatalf("the contents of %s (-want +got):\n%s", run.Name, diff)
	}
}

// checkExpired: who passed its start deadline has failed and was not run.
func (w *world) checkExpired(t *rapid.T, c *modelled, plan berth.Plan) {
	t.Helper()
	if len(plan.Expire) == 0 {
		return
	}
	o := w.read(t, c)
	for _, b := range plan.Expire {
		if row := o.named(b.Name); row.Phase != berth.PhaseFailed || row.Reason != "StartDeadlineExceeded" || row.FirstReadyAt != nil {
			t.Fatalf("%s passed its start deadline and is %s (%s)", b.Name, row.Phase, row.Reason)
		}
	}
}

// poll is what a dispatcher without room does.
func (w *world) poll(t *rapid.T, c *modelled) {
	t.Helper()
	done, err := w.d.Dispatch(w.ctx, berth.DispatchRequest{Cluster: c.name})
	w.must(t, err)
	c.last = nil
	if len(done.Runs) > 0 {
		t.Fatalf("a look without room admitted %s", runsOf(done.Runs))
	}
}

// mark: after a look without room nobody who has somebody in its way is without
// a witness.
func (w *world) mark(t *rapid.T, c *modelled) {
	plan := w.before(t, c).Plan(0)
	w.poll(t, c)
	w.checkExpired(t, c, plan)
	o := w.read(t, c)
	if wrong := o.unmarked(); len(wrong) > 0 {
		t.Fatalf("after a look without room:\n%s\nin the queue with %s", strings.Join(wrong, "\n"), o)
	}
}

// markAll: after a full marking pass each stored witness is the furthest back.
func (w *world) markAll(t *rapid.T, c *modelled) {
	w.must(t, w.d.Remark(w.ctx, c.name))
	w.poll(t, c)
	w.poll(t, c)
	o := w.read(t, c)
	if wrong := o.unfinished(); len(wrong) > 0 {
		t.Fatalf("after a full marking pass:\n%s\nin the queue with %s", strings.Join(wrong, "\n"), o)
	}
}

func (w *world) advance(t *rapid.T, c *modelled) {
	run := c.runs[c.drawRun(t)]
	switch phase := w.before(t, c).row(run.Seq).Phase; phase {
	case berth.PhaseReadyToStart:
		w.must(t, w.d.Start(w.ctx, run))
	case berth.PhaseInProgress:
		w.must(t, w.d.Finalize(w.ctx, run, berth.Outcome{Errors: rapid.IntRange(0, 1).Draw(t, "errors")}))
	default:
		t.Skip("it is at its end")
	}
}

func (w *world) progress(t *rapid.T, c *modelled) {
	run := c.runs[c.drawRun(t)]
	if w.before(t, c).row(run.Seq).Phase == berth.PhaseReadyToStart {
		t.Skip("it has not started")
	}
	w.must(t, w.d.Progress(w.ctx, run, berth.Progress{ItemsBackedUp: 1, TotalItems: 2, Bytes: 3}))
}

func (w *world) finish(t *rapid.T, c *modelled) {
	i := c.drawRun(t)
	phase := w.before(t, c).row(c.runs[i].Seq).Phase
	var ends []berth.Phase
	for _, next := range berth.Phases() {
		if next.Terminal() && phase.CanBecome(next) {
			ends = append(ends, next)
		}
	}
	end := rapid.SampledFrom(ends).Draw(t, "end")
	w.must(t, w.d.Finish(w.ctx, c.runs[i], berth.Outcome{Phase: end, Reason: string(end)}))
	c.forget(i)
}

func (w *world) release(t *rapid.T, c *modelled) {
	i := c.drawRun(t)
	run, canceled := c.runs[i], w.before(t, c).row(c.runs[i].Seq).CancelAt != nil
	w.must(t, w.d.Release(w.ctx, run, "the worker goes"))
	c.forget(i)
	want := berth.PhaseQueued
	if canceled {
		want = berth.PhaseCanceled
	}
	if now := w.read(t, c).row(run.Seq); now.Phase != want {
		t.Fatalf("%s was released and is %s", run.Name, now.Phase)
	}
}

// reap: back into the queue after the first lost lease, after a back-off from the
// second on, and Failed after the last.
func (w *world) reap(t *rapid.T, c *modelled) {
	i := c.drawRun(t)
	run := c.runs[i]
	before := w.before(t, c).row(run.Seq)
	w.exec(t, "UPDATE leases SET expires_at = clock_timestamp() - interval '1 second' WHERE seq = $1", run.Seq)
	reaped, err := w.d.Reap(w.ctx, 0)
	w.must(t, err)
	if reaped != 1 {
		t.Fatalf("%d leases were reaped", reaped)
	}
	c.forget(i)
	// A back-off would end by itself while the test looks.
	w.exec(t, "UPDATE backups SET retry_at = retry_at + interval '1 hour' WHERE seq = $1", run.Seq)
	want := berth.PhaseQueued
	switch {
	case before.CancelAt != nil:
		want = berth.PhaseCanceled
	case before.LostLeases+1 == berth.DefaultMaxAttempts:
		want = berth.PhaseFailed
	case before.LostLeases > 0:
		want = berth.PhaseNew
	}
	if now := w.read(t, c).row(run.Seq); now.Phase != want {
		t.Fatalf("%s lost %d leases and is %s", run.Name, now.LostLeases, now.Phase)
	}
}

// giveUp: after a back-off, and Failed after the last attempt.
func (w *world) giveUp(t *rapid.T, c *modelled) {
	i := c.drawRun(t)
	run := c.runs[i]
	before := w.before(t, c).row(run.Seq)
	w.must(t, w.d.GiveUp(w.ctx, run, "StorageLost", "the store is away"))
	c.forget(i)
	w.exec(t, "UPDATE backups SET retry_at = retry_at + interval '1 hour' WHERE seq = $1", run.Seq)
	want := berth.PhaseNew
	switch {
	case before.CancelAt != nil:
		want = berth.PhaseCanceled
	case before.LostLeases+1 == berth.DefaultMaxAttempts:
		want = berth.PhaseFailed
	}
	if now := w.read(t, c).row(run.Seq); now.Phase != want || now.LostLeases != before.LostLeases+1 || now.Reason != "StorageLost" {
		t.Fatalf("%s was given up, lost %d attempts and is %s, %s", run.Name, now.LostLeases, now.Phase, now.Reason)
	}
}

// writeLate: a worker whose run was taken back changes nothing.
func (w *world) writeLate(t *rapid.T, c *modelled) {
	if len(c.lost) == 0 {
		t.Skip("nobody lost a run")
	}
	run := c.lost[rapid.IntRange(0, len(c.lost)-1).Draw(t, "run")]
	// The end that it had may be told it again.
	another := berth.PhaseFailed
	if w.before(t, c).row(run.Seq).Phase == another {
		another = berth.PhaseCompleted
	}
	for what, err := range map[string]error{
		"start":    w.d.Start(w.ctx, run),
		"finalize": w.d.Finalize(w.ctx, run, berth.Outcome{}),
		"progress": w.d.Progress(w.ctx, run, berth.Progress{}),
		"finish":   w.d.Finish(w.ctx, run, berth.Outcome{Phase: another}),
		"release":  w.d.Release(w.ctx, run, ""),
	} {
		if !errors.Is(err, berth.ErrLeaseLost) {
			t.Fatalf("%s %s: %v, want %v", what, run.Name, err, berth.ErrLeaseLost)
		}
	}
}

func (w *world) drawRow(t *rapid.T, c *modelled, of func(oracleRow) bool) (oracle, oracleRow) {
	t.Helper()
	o := w.before(t, c)
	var rows []oracleRow
	for _, row := range o.rows {
		if of(row) {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		t.Skip("there is none")
	}
	return o, rows[rapid.IntRange(0, len(rows)-1).Draw(t, "backup")]
}

func (w *world) cancel(t *rapid.T, c *modelled) {
	_, row := w.drawRow(t, c, func(r oracleRow) bool { return r.Phase != berth.PhaseCompleted })
	b, err := w.d.Cancel(w.ctx, row.ID, "ada")
	switch {
	case row.Phase.Waiting(), row.Phase == berth.PhaseCanceled:
		w.must(t, err)
		if b.Phase != berth.PhaseCanceled {
			t.Fatalf("%s was canceled and is %s", b.Name, b.Phase)
		}
	case row.Phase.Running():
		w.must(t, err)
		if b.Phase != row.Phase {
			t.Fatalf("%s runs, was canceled and is %s", b.Name, b.Phase)
		}
	case berth.CodeOf(err) != berth.CodeStateConflict:
		t.Fatalf("cancel %s, which is %s: %v", row.Name, row.Phase, err)
	}
}

func (w *world) retry(t *rapid.T, c *modelled) {
	o, row := w.drawRow(t, c, func(r oracleRow) bool { return !r.Phase.Waiting() && !r.Phase.Running() })
	if o.waiting() >= enough {
		t.Skip("enough wait")
	}
	b, err := w.d.Retry(w.ctx, row.ID, "ada")
	if !checkRoom(t, o, 1, err) {
		return
	}
	again := slices.Contains([]berth.Phase{berth.PhaseFailed, berth.PhasePartiallyFailed, berth.PhaseCanceled}, row.Phase)
	switch {
	case again && (err != nil || b.Phase != berth.PhaseQueued):
		t.Fatalf("retry %s: %v, it is %s", row.Name, err, b.Phase)
	case !again && berth.CodeOf(err) != berth.CodeStateConflict:
		t.Fatalf("retry %s, which is %s: %v", row.Name, row.Phase, err)
	}
}

func (w *world) edit(t *rapid.T, c *modelled) {
	_, row := w.drawRow(t, c, func(r oracleRow) bool { return !r.Phase.Terminal() })
	e := berth.Edit{By: "ada"}
	// The zero time takes it away.
	orNone := func(at *time.Time) *time.Time { return cmp.Or(at, new(time.Time{})) }
	switch rapid.IntRange(0, 3).Draw(t, "edit") {
	case 0:
		e.Priority = new(w.priorities.Draw(t, "priority"))
	case 1:
		e.NotBefore = orNone(drawInstant(t, "notBefore"))
	case 2:
		e.StartDeadline = orNone(drawInstant(t, "startDeadline"))
	case 3:
		e.Priority, e.NotBefore, e.StartDeadline = new(w.priorities.Draw(t, "priority")), orNone(drawInstant(t, "notBefore")), new(time.Time{})
	}
	// A deadline that is over for longer than a dispatcher takes would be a finding.
	if e.StartDeadline != nil && !e.StartDeadline.IsZero() && e.StartDeadline.Before(time.Now()) {
		e.StartDeadline = new(time.Now().Add(-time.Second))
	}
	b, err := w.d.Edit(w.ctx, row.ID, e)
	if !row.Phase.Waiting() {
		if berth.CodeOf(err) != berth.CodeStateConflict {
			t.Fatalf("edit %s, which is %s: %v", row.Name, row.Phase, err)
		}
		return
	}
	notBefore, deadline := row.NotBefore, row.StartDeadline
	if e.NotBefore != nil {
		notBefore = e.NotBefore
	}
	if e.StartDeadline != nil {
		deadline = e.StartDeadline
	}
	given := func(at *time.Time) bool { return at != nil && !at.IsZero() }
	if given(notBefore) && given(deadline) && !deadline.After(*notBefore) {
		if berth.CodeOf(err) != berth.CodeValidationFailed {
			t.Fatalf("edit %s to be due after its start deadline: %v", row.Name, err)
		}
		return
	}
	w.must(t, err)
	same := func(a, b *time.Time) bool { return given(a) == given(b) && (!given(a) || a.Equal(*b)) }
	if (e.Priority == nil || *e.Priority == row.Priority) && same(notBefore, row.NotBefore) && same(deadline, row.StartDeadline) {
		if b.Phase != row.Phase {
			t.Fatalf("an edit of %s that changes nothing made it %s, it was %s", b.Name, b.Phase, row.Phase)
		}
		return
	}
	due := berth.Standing{NotBefore: notBefore, RetryAt: row.RetryAt}.Due()
	if later := due.After(time.Now()); later != (b.Phase == berth.PhaseNew) {
		t.Fatalf("%s was edited to be due at %v and is %s", b.Name, due, b.Phase)
	}
}

func (w *world) pause(t *rapid.T, c *modelled) {
	p := berth.PauseRequest{Reason: "upgrade", By: rapid.SampledFrom([]string{"", "ada", "bob"}).Draw(t, "by")}
	if rapid.Bool().Draw(t, "ends") {
		p.Until = new(time.Now().Add(time.Duration(rapid.IntRange(60, 600).Draw(t, "minutes")) * time.Minute))
	}
	_, err := w.d.Pause(w.ctx, c.name, p)
	w.must(t, err)
}

func (w *world) resume(t *rapid.T, c *modelled) {
	if w.before(t, c).Paused == nil {
		t.Skip("it is not paused")
	}
	_, err := w.d.Resume(w.ctx, c.name, "ada")
	w.must(t, err)
}

func (w *world) limit(t *rapid.T, c *modelled) {
	w.must(t, w.d.SetConcurrentBackups(w.ctx, c.name, rapid.IntRange(1, 5).Draw(t, "limit")))
}

func (w *world) cap(t *rapid.T, c *modelled) {
	most := 0
	if rapid.Bool().Draw(t, "capped") {
		most = max(1, w.before(t, c).waiting()+rapid.IntRange(-1, 3).Draw(t, "more"))
	}
	_, err := w.d.ChangeSettings(w.ctx, c.name, berth.SettingsChange{MaxQueued: &most})
	w.must(t, err)
}

func (w *world) workerGoes(t *rapid.T, c *modelled) {
	if !w.before(t, c).HasWorker {
		t.Skip("there is none")
	}
	w.must(t, w.d.Retire(w.ctx, c.worker))
}

func (w *world) workerComes(t *rapid.T, c *modelled) {
	if w.before(t, c).HasWorker {
		t.Skip("it is there")
	}
	lost, err := w.d.Renew(w.ctx, berth.Heartbeat{Cluster: c.name, Worker: c.worker, LeaseTTL: time.Hour, Held: c.runs})
	w.must(t, err)
	if len(lost) > 0 {
		t.Fatalf("%s lost its leases", runsOf(lost))
	}
}

// workerSaysItsRoom: as many as it runs, some more or any number; and now and then
// fewer, or that it takes nothing more.
func (w *world) workerSaysItsRoom(t *rapid.T, c *modelled) {
	o := w.before(t, c)
	if !o.HasWorker && o.Workers == nil {
		t.Skip("there is none")
	}
	var most *int
	if rapid.IntRange(0, 3).Draw(t, "capped") > 0 {
		most = new(max(0, len(c.runs)+rapid.IntRange(-1, 3).Draw(t, "room")))
	}
	_, err := w.d.Renew(w.ctx, berth.Heartbeat{Cluster: c.name, Worker: c.worker, MaxBackups: most, LeaseTTL: time.Hour, Held: c.runs})
	w.must(t, err)
}

func (w *world) clusterAnswers(t *rapid.T, c *modelled) {
	if w.before(t, c).Reachable && rapid.IntRange(0, 3).Draw(t, "again") > 0 {
		t.Skip("it answered")
	}
	w.must(t, w.d.Seen(w.ctx, c.name))
}

func (w *world) clusterIsSilent(t *rapid.T, c *modelled) {
	o := w.before(t, c)
	if !o.Synced || !o.Reachable {
		t.Skip("it is out of reach")
	}
	w.exec(t, "UPDATE clusters SET seen_at = clock_timestamp() - interval '61 seconds' WHERE id = $1", c.id)
}

func (w *world) locationGoes(t *rapid.T, c *modelled) {
	name := rapid.SampledFrom([]string{"default", "east"}).Draw(t, "location")
	if w.before(t, c).Unavailable[name] {
		t.Skip("it is away")
	}
	w.must(t, w.d.SetLocationAvailable(w.ctx, c.name, name, false, "connection refused"))
}

func (w *world) locationComes(t *rapid.T, c *modelled) {
	away := slices.Sorted(maps.Keys(w.before(t, c).Unavailable))
	if len(away) == 0 {
		t.Skip("none is away")
	}
	w.must(t, w.d.SetLocationAvailable(w.ctx, c.name, rapid.SampledFrom(away).Draw(t, "location"), true, ""))
}

func (w *world) namespaceChanges(t *rapid.T, c *modelled) {
	name := rapid.OneOf(w.name, rapid.SampledFrom([]string{"web-1", "ghost"})).Draw(t, "namespace")
	change := rapid.SampledFrom([]berth.Namespace{present(name), labelled(name), gone(name)}).Draw(t, "change")
	w.must(t, w.d.ChangeNamespaces(w.ctx, c.name, []berth.Namespace{change}))
}

func (w *world) namespacesAreListed(t *rapid.T, c *modelled) {
	var all []berth.Namespace
	for _, name := range rapid.SliceOfNDistinct(w.name, 0, 4, rapid.ID).Draw(t, "namespaces") {
		all = append(all, rapid.SampledFrom([]berth.Namespace{present(name), present(name), labelled(name)}).Draw(t, "namespace"))
	}
	w.must(t, w.d.SyncNamespaces(w.ctx, c.name, all))
}

// timePasses moves a cluster's times back, all by as much, until the next of them
// is over: what is due, a deadline, the end of a pause or of a back-off. What was
// over before, a dispatcher has noticed by then. Leases and whoever answers are
// renewed meanwhile, so that theirs stay.
func (w *world) timePasses(t *rapid.T, c *modelled) {
	o := w.before(t, c)
	if o.turning() {
		w.poll(t, c)
		o = w.read(t, c)
	}
	next := o.toCome()
	if len(next) == 0 {
		t.Skip("nothing is to come")
	}
	// Those that are a moment apart pass together: none does by itself while the
	// test looks.
	last := next[0]
	for _, at := range next {
		if at.Sub(last) < 15*time.Second {
			last = at
		}
	}
	w.moveBack(t, c, last.Sub(o.At)+time.Second)
}

func (w *world) moveBack(t *rapid.T, c *modelled, by time.Duration) {
	t.Helper()
	passed := fmt.Sprintf(" - interval '%d microseconds'", by.Microseconds())
	back := func(table string, columns ...string) string {
		sets := make([]string, len(columns))
		for i, column := range columns {
			sets[i] = column + " = " + column + passed
		}
		return "UPDATE " + table + " SET " + strings.Join(sets, ", ") + " WHERE "
	}
	id := fmt.Sprintf("= %d; ", c.id)
	w.exec(t, back("backups", "created_at", "enqueued_at", "ready_at", "started_at", "completed_at", "expires_at", "order_key", "not_before",
		"start_deadline", "retry_at", "first_ready_at", "cancel_requested_at", "blocked_since")+"cluster_id "+id+
		back("claims", "order_key")+"cluster_id "+id+
		back("relooks", "order_key")+"cluster_id "+id+
		back("clusters", "inventory_synced_at", "paused_since", "paused_until")+"id "+id)
}

// explain: what the store explains is what the planner does.
func (w *world) explain(t *rapid.T, c *modelled) {
	o, row := w.drawRow(t, c, func(r oracleRow) bool { return r.Phase.Waiting() })
	got, err := w.d.Explain(w.ctx, row.ID)
	w.must(t, err)
	want, _ := o.Explain(row.ID)
	ignore := cmpopts.IgnoreFields(berth.Blocker{}, "Since")
	if diff := gocmp.Diff(want.Blockers, got.Blockers, ignore, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the blockers of %s (-planner +database):\n%s", row.Name, diff)
	}
	if diff := gocmp.Diff(want.Chain, got.Chain, ignore, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the chain of %s (-planner +database):\n%s", row.Name, diff)
	}
}

// readByPages: the pages of a queue are the queue.
func (w *world) readByPages(t *rapid.T, c *modelled) {
	whole := w.queue(t, c)
	options := berth.QueueOptions{Cluster: c.name, Limit: rapid.IntRange(1, 4).Draw(t, "limit")}
	var paged []berth.Backup
	for {
		page, err := w.d.Queue(w.ctx, options)
		w.must(t, err)
		paged = append(paged, page.Waiting...)
		if options.After = page.Next; options.After == "" {
			break
		}
	}
	ignore := cmpopts.IgnoreFields(berth.QueueEntry{}, "ETA")
	if diff := gocmp.Diff(whole.Waiting, paged, ignore, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the queue by pages (-whole +pages):\n%s", diff)
	}
}
