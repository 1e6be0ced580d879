package db_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
)

// oracle is one cluster's queue as the base tables have it at one instant, read
// without any column or function that the store derives: places from times and
// priorities, claims from specs and namespaces, what runs from what the test saw
// admitted. The pure planner says of it what the store has to say.
type oracle struct {
	// Snapshot is what the next dequeue decides on.
	berth.Snapshot
	rows      []oracleRow
	maxQueued int
	// findings are the rows of report.audit, untold the backups whose stored witness
	// is not that of their newest event.
	findings, untold []string
	// told is what the store's statements tell of the queue at that instant.
	told berth.Queue
}

// oracleRow is a backup; all but the last line is its own.
type oracleRow struct {
	Seq           int64
	ID            uuid.UUID
	Name          string
	Phase         berth.Phase
	Reason        string
	EnqueuedAt    time.Time
	NotBefore     *time.Time
	Priority      int
	RetryAt       *time.Time
	StartDeadline *time.Time
	FirstReadyAt  *time.Time
	LostLeases    int
	CancelAt      *time.Time
	Slot          *int
	Location      string
	Spec          json.RawMessage
	// What the store keeps for itself: compared, never used.
	BlockedBy *int64
	Resolved  bool
	Claims    int
}

func (r oracleRow) standing(held map[int64]berth.Claim) (berth.Standing, error) {
	var spec berth.Spec
	if err := json.Unmarshal(r.Spec, &spec); err != nil {
		return berth.Standing{}, err
	}
	scope, problems := berth.ScopeOf(spec.IncludedNamespaces, spec.ExcludedNamespaces)
	if problems != nil {
		return berth.Standing{}, fmt.Errorf("the spec of %s: %v", r.Name, problems)
	}
	b := berth.Standing{
		ID: r.ID, Name: r.Name, Seq: r.Seq, Phase: r.Phase, OrderKey: berth.OrderKey(r.EnqueuedAt, r.NotBefore, r.Priority), Scope: scope,
		Location: r.Location, NotBefore: r.NotBefore, RetryAt: r.RetryAt, StartDeadline: r.StartDeadline, Admitted: r.FirstReadyAt != nil,
	}
	if r.Phase.Running() {
		claim, known := held[r.Seq]
		if !known || r.Slot == nil {
			return b, fmt.Errorf("%s is %s, and nobody saw it admitted into a slot", r.Name, r.Phase)
		}
		b.Held, b.Slot = &claim, *r.Slot
	}
	return b, nil
}

// oracleWorker is one that is alive.
type oracleWorker struct {
	MaxBackups *int
	Runs       int
}

func roomOf(workers []oracleWorker) (some bool, room *berth.WorkerRoom) {
	for _, k := range workers {
		switch {
		case k.MaxBackups == nil:
			return true, nil
		case *k.MaxBackups == 0:
			continue
		case room == nil:
			room = &berth.WorkerRoom{}
		}
		room.MaxBackups += *k.MaxBackups
		room.Free += max(0, *k.MaxBackups-k.Runs)
	}
	return room != nil, room
}

// readOracle reads a cluster's queue. held are the claims of those that run.
func readOracle(ctx context.Context, conn *pgx.Conn, cluster string, clusterID int32, held map[int64]berth.Claim) (o oracle, err error) {
	var pausedSince, pausedUntil, seenAt *time.Time
	var reason, by string
	var batch pgx.Batch
	batch.Queue(`
		SELECT clock_timestamp(), concurrent_backups, coalesce(max_queued, 0), paused_since, paused_until, pause_reason, paused_by,
		       inventory_synced_at IS NOT NULL, seen_at
		  FROM clusters WHERE id = $1`, clusterID).QueryRow(func(row pgx.Row) error {
		return row.Scan(&o.At, &o.ConcurrentBackups, &o.maxQueued, &pausedSince, &pausedUntil, &reason, &by, &o.Synced, &seenAt)
	})
	batch.Queue(`
		SELECT k.max_backups, (SELECT count(*) FROM leases l WHERE l.worker = k.id) AS runs
		  FROM workers k WHERE k.cluster_id = $1 AND k.expires_at > clock_timestamp()`, clusterID).Query(func(rows pgx.Rows) error {
		workers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[oracleWorker])
		o.HasWorker, o.Workers = roomOf(workers)
		return err
	})
	batch.Queue(`SELECT name, present AS exists, excluded FROM namespaces WHERE cluster_id = $1 ORDER BY id`, clusterID).Query(func(rows pgx.Rows) (err error) {
		o.Namespaces, err = pgx.CollectRows(rows, pgx.RowToStructByName[berth.Namespace])
		return err
	})
	batch.Queue(`SELECT name FROM storage_locations WHERE cluster_id = $1 AND NOT available`, clusterID).Query(func(rows pgx.Rows) error {
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		o.Unavailable = map[string]bool{}
		for _, name := range names {
			o.Unavailable[name] = true
		}
		return err
	})
	batch.Queue(`
		SELECT seq, id, name, phase, reason, enqueued_at, not_before, priority, retry_at, start_deadline, first_ready_at, lost_leases,
		       cancel_requested_at AS cancel_at, slot, location, spec, blocked_by, resolved,
		       (SELECT count(*) FROM claims c WHERE c.seq = b.seq) AS claims
		  FROM backups b WHERE cluster_id = $1 ORDER BY seq`, clusterID).Query(func(rows pgx.Rows) (err error) {
		o.rows, err = pgx.CollectRows(rows, pgx.RowToStructByName[oracleRow])
		return err
	})
	batch.Queue(`
		SELECT concat_ws(' ', cluster, check_name, backup, detail) FROM report.audit`).Query(func(rows pgx.Rows) (err error) {
		o.findings, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	batch.Queue(`
		SELECT format('%s has witness %s, its newest event says %s', b.name, b.blocked_by, e.blocker)
		  FROM backups b CROSS JOIN LATERAL (SELECT e.blocker FROM events e WHERE e.seq = b.seq ORDER BY e.id DESC LIMIT 1) e
		 WHERE b.cluster_id = $1 AND b.phase = 'Queued' AND (b.blocked_by IS NOT NULL OR b.evaluated) AND e.blocker IS DISTINCT FROM b.blocked_by`,
		clusterID).Query(func(rows pgx.Rows) (err error) {
		o.untold, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	batch.Queue(db.Statements()["running"], pgx.NamedArgs{"cluster_id": clusterID}).Query(func(rows pgx.Rows) (err error) {
		o.told.Running, err = db.CollectBackups(rows)
		return err
	})
	first := pgx.NamedArgs{"cluster_id": clusterID, "later": false, "place": "-infinity", "seq": 0, "limit": 1000}
	batch.Queue(db.Statements()["waiting"], first).Query(func(rows pgx.Rows) (err error) {
		o.told.Waiting, err = db.CollectWaiting(rows)
		return err
	})
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		return o, err
	}
	// Whose API was silent for a minute is out of reach.
	o.Reachable = !o.Synced || seenAt == nil || o.At.Sub(*seenAt) < time.Minute
	if pausedSince != nil {
		o.Paused = &berth.Pause{Reason: reason, By: by, Since: *pausedSince, Until: pausedUntil}
	}
	for _, row := range o.rows {
		if !row.Phase.Waiting() && !row.Phase.Running() {
			continue
		}
		b, err := row.standing(held)
		if err != nil {
			return o, err
		}
		o.Backups = append(o.Backups, b)
	}
	return o, nil
}

func (o oracle) waiting() (count int) {
	for _, row := range o.rows {
		if row.Phase.Waiting() {
			count++
		}
	}
	return count
}

func (o oracle) row(seq int64) oracleRow {
	return o.rows[slices.IndexFunc(o.rows, func(r oracleRow) bool { return r.Seq == seq })]
}

func (o oracle) named(name string) oracleRow {
	return o.rows[slices.IndexFunc(o.rows, func(r oracleRow) bool { return r.Name == name })]
}

// asRead is the queue as it is read before a dispatcher has noticed the clock:
// who is due is not in it yet, and who has passed its deadline still is. due are
// those that are left out.
func (o oracle) asRead() (s berth.Snapshot, due []berth.Standing) {
	s = o.Snapshot
	s.Backups = nil
	for _, b := range o.Backups {
		if b.Expired(o.At) {
			b.StartDeadline = nil
		}
		if b.Phase == berth.PhaseNew && b.QueuedAt(o.At) {
			due = append(due, b)
			continue
		}
		s.Backups = append(s.Backups, b)
	}
	return s, due
}

// turning says whether the clock has brought something about that no dispatcher
// has noticed yet.
func (o oracle) turning() bool {
	overdue := func(b berth.Standing) bool {
		return b.Expired(o.At) || b.Phase == berth.PhaseNew && b.QueuedAt(o.At)
	}
	return o.Paused != nil && !o.Paused.InForce(o.At) || slices.ContainsFunc(o.Backups, overdue)
}

// toCome are the instants at which the clock will bring something about, in order.
func (o oracle) toCome() []time.Time {
	var found []time.Time
	consider := func(at *time.Time) {
		if at != nil && at.After(o.At) {
			found = append(found, *at)
		}
	}
	if o.Paused != nil {
		consider(o.Paused.Until)
	}
	for _, b := range o.Backups {
		if b.Phase.Waiting() && !b.Admitted {
			consider(b.StartDeadline)
		}
		if b.Phase == berth.PhaseNew {
			consider(b.NotBefore)
			consider(b.RetryAt)
		}
	}
	slices.SortFunc(found, time.Time.Compare)
	return found
}

// differences tells what of a queue that was read is not as the oracle says. It
// is empty where they agree.
func (o oracle) differences(q berth.Queue) []string {
	var found []string
	differ := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	s, due := o.asRead()
	plan := s.Plan(0)
	var running []string
	for _, b := range s.Backups {
		if b.Phase.Running() {
			running = append(running, fmt.Sprintf("%s %s in slot %d", b.Name, b.Phase, b.Slot))
		}
	}
	var read []string
	for _, b := range q.Running {
		read = append(read, fmt.Sprintf("%s %s in slot %d", b.Name, b.Phase, *b.Slot))
	}
	slices.Sort(running)
	slices.Sort(read)
	if !slices.Equal(running, read) {
		differ("running are %q, the queue says %q", running, read)
	}
	if len(q.Waiting) != len(plan.Waiting)+len(due) {
		differ("%d wait, the queue says %d", len(plan.Waiting)+len(due), len(q.Waiting))
	}
	told := map[uuid.UUID]berth.Backup{}
	for i, b := range q.Waiting {
		told[b.ID] = b
		if i < len(plan.Waiting) && plan.Waiting[i].Position > 0 && plan.Waiting[i].Backup.ID != b.ID {
			differ("number %d is %s, the queue says %s", i+1, plan.Waiting[i].Backup.Name, b.Name)
		}
	}
	for _, w := range plan.Waiting {
		b, waits := told[w.Backup.ID]
		if !waits {
			differ("%s waits, the queue does not have it", w.Backup.Name)
			continue
		}
		if b.Queue.Position != w.Position || b.Queue.OverlappingAhead != w.OverlappingAhead {
			differ("%s has position %d and %d ahead overlap, the queue says %d and %d", b.Name, w.Position, w.OverlappingAhead, b.Queue.Position, b.Queue.OverlappingAhead)
		}
		if diff := blockerDifference(s, w, b.Queue.BlockedBy[0]); diff != "" {
			differ("%s: %s", b.Name, diff)
		}
	}
	for _, b := range due {
		now, waits := told[b.ID]
		// It is not in the queue yet: it waits to be put there.
		want := berth.WaitNotBefore
		if b.NotBefore == nil || b.RetryAt != nil && b.RetryAt.After(*b.NotBefore) {
			want = berth.WaitBackOff
		}
		if !waits || now.Queue.Position != 0 || now.Queue.BlockedBy[0].Reason != want {
			differ("%s is due, the queue says %+v, want %s", b.Name, now.Queue, want)
		}
	}
	return found
}

// blockerDifference compares what a waiting backup is told to wait for: the
// reason that counts, and where that is an overlap, one of the backups that are
// in the way, with what both need.
func blockerDifference(s berth.Snapshot, w berth.Waiting, got berth.Blocker) string {
	ignore := cmp.Options{cmpopts.IgnoreFields(berth.Blocker{}, "Since"), cmpopts.EquateEmpty()}
	if cmp.Equal(w.BlockedBy, got, ignore) {
		return ""
	}
	if w.BlockedBy.Backup == nil {
		return cmp.Diff(w.BlockedBy, got, ignore)
	}
	e, waits := s.Explain(w.Backup.ID)
	if !waits {
		return "it cannot be explained"
	}
	for _, blocker := range e.Blockers {
		if cmp.Equal(blocker, got, ignore) && got.Backup != nil {
			return ""
		}
	}
	return fmt.Sprintf("what it is told is not in its way: %+v, but one of %+v", got, e.Blockers)
}

// unmarked tells who has somebody in its way and no stored witness: after a look
// without room, nobody.
func (o oracle) unmarked() []string {
	return o.witnesses(func(got, furthest *int64) bool { return got != nil || furthest == nil })
}

// unfinished tells which stored witnesses are not the furthest back: after a full
// marking pass there is none.
func (o oracle) unfinished() []string {
	return o.witnesses(func(got, furthest *int64) bool {
		return (got == nil) == (furthest == nil) && (got == nil || *got == *furthest)
	})
}

// witnesses tells whose stored witness is not right beside the one furthest back.
func (o oracle) witnesses(right func(got, furthest *int64) bool) []string {
	var found []string
	seqs := map[uuid.UUID]int64{}
	for _, row := range o.rows {
		seqs[row.ID] = row.Seq
	}
	for _, w := range o.Plan(0).Waiting {
		row := o.row(seqs[w.Backup.ID])
		var furthest *int64
		// Whose scope cannot be resolved has none: it waits for the namespaces.
		if w.Witness != nil && row.Resolved {
			furthest = new(seqs[w.Witness.ID])
		}
		if !right(row.BlockedBy, furthest) {
			found = append(found, fmt.Sprintf("%s has witness %s, the furthest back is %s", row.Name, seqText(row.BlockedBy), seqText(furthest)))
		}
	}
	return found
}

// String tells who stands where, for a failure.
func (o oracle) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "limit %d, paused %v, a worker %v, reachable %v, synced %v, namespaces %+v, unavailable %v\n",
		o.ConcurrentBackups, o.Paused.InForce(o.At), o.HasWorker, o.Reachable, o.Synced, o.Namespaces, o.Unavailable)
	for _, s := range o.Backups {
		r := o.row(s.Seq)
		fmt.Fprintf(&b, "%d %s %s (%s) at %s, slot %d, %s, location %s, due %s, deadline %v, admitted %v, holds %+v, witness %s, resolved %v\n",
			r.Seq, r.Name, r.Phase, r.Reason, s.OrderKey.Sub(o.At), s.Slot, r.Spec, r.Location, s.Due(), s.StartDeadline, s.Admitted, s.Held, seqText(r.BlockedBy), r.Resolved)
	}
	return b.String()
}

func seqText(seq *int64) string {
	if seq == nil {
		return "none"
	}
	return fmt.Sprint(*seq)
}

func startsOf(starts []berth.Start) string {
	var text []string
	for _, s := range starts {
		text = append(text, fmt.Sprintf("%s in slot %d", s.Backup.Name, s.Slot))
	}
	return strings.Join(text, ", ")
}

func runsOf(runs []berth.Run) string {
	var text []string
	for _, run := range runs {
		text = append(text, fmt.Sprintf("%s in slot %d", run.Name, run.Slot))
	}
	return strings.Join(text, ", ")
}
