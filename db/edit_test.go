package db_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

func nth(name string, i int) string { return fmt.Sprintf("%s-%d", name, i) }

func order(tb testing.TB, d *dbtest.Database) []string {
	tb.Helper()
	q, err := d.Queue(context.Background(), berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1000})
	if err != nil {
		tb.Fatal(err)
	}
	var found []string
	for _, b := range q.Waiting {
		found = append(found, b.Name)
	}
	return found
}

// Priority puts a backup before those that were asked for by so many minutes
// earlier, at its enqueue and when it is edited, and not before others.
func TestPriority(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a", "b", "c")
	first := enqueue(t, d, request("first", "a"))
	exec(t, d, "UPDATE backups SET enqueued_at = enqueued_at - interval '30 min', order_key = order_key - interval '30 min'")
	exec(t, d, "UPDATE claims SET order_key = order_key - interval '30 min'")
	second := enqueue(t, d, request("second", "b"))
	urgent := request("urgent", "b")
	urgent.Priority = 10
	enqueue(t, d, urgent)
	if diff := cmp.Diff([]string{"first", "urgent", "second"}, order(t, d)); diff != "" {
		t.Errorf("the order (-want +got):\n%s", diff)
	}
	dispatch(t, d, 0)
	checkWaits(t, d, "urgent", map[string]string{"first": "Dispatch", "urgent": "Dispatch", "second": "EarlierQueuedOverlap urgent b"})
	edited, err := d.Edit(ctx, second.ID, berth.Edit{Priority: new(31), By: "ann"})
	if err != nil || edited.Priority != 31 || edited.Queue.Position != 1 {
		t.Fatalf("edited: %+v, %v", edited, err)
	}
	checkWaits(t, d, "edited", map[string]string{"first": "Dispatch", "second": "Dispatch", "urgent": "EarlierQueuedOverlap second b"})
	if _, err := d.Edit(ctx, second.ID, berth.Edit{Priority: new(-31)}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"first", "urgent", "second"}, order(t, d)); diff != "" {
		t.Errorf("the order (-want +got):\n%s", diff)
	}
	dispatch(t, d, 1)
	for what, edit := range map[string]func() error{
		"one that runs":       func() error { return second2(d.Edit(ctx, first.ID, berth.Edit{Priority: new(1)})) },
		"one of no such id":   func() error { return second2(d.Edit(ctx, uuid.New(), berth.Edit{Priority: new(1)})) },
		"a priority too high": func() error { return second2(d.Edit(ctx, second.ID, berth.Edit{Priority: new(berth.MaxPriority + 1)})) },
	} {
		want := map[string]berth.Code{"one that runs": berth.CodeStateConflict, "one of no such id": berth.CodeNotFound, "a priority too high": berth.CodeValidationFailed}[what]
		if err := edit(); berth.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
}

func second2[T any](_ T, err error) error { return err }

// Who gets somebody ahead after it was looked at, and waits for a place, is
// looked at again: its events say what it waits for.
func TestArrivalsAheadAreNoticed(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a", "b", "c")
	enqueue(t, d, request("runs", "a"))
	dispatch(t, d, 1)
	enqueue(t, d, request("known", "b"))
	dispatch(t, d, 0)
	urgent := request("urgent", "b", "c")
	urgent.Priority = 60
	enqueue(t, d, urgent)
	dispatch(t, d, 0)
	found := collect[struct{ Name, Reason, Blocker string }](t, connect(t, d.URL), `
		SELECT b.name, e.reason, w.name AS blocker FROM events e JOIN backups b USING (seq) JOIN backups w ON w.seq = e.blocker
		 WHERE e.from_phase = 'Queued' AND e.to_phase = 'Queued' ORDER BY e.id`)
	if diff := cmp.Diff([]struct{ Name, Reason, Blocker string }{{"known", "EarlierQueuedOverlap", "urgent"}}, found); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// notBefore moves a queued backup out of the queue and back into it.
func TestEditNotBefore(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	first := enqueue(t, d, request("first", "a"))
	enqueue(t, d, request("second", "a"))
	dispatch(t, d, 0)
	later := time.Now().Add(time.Hour)
	b, err := d.Edit(ctx, first.ID, berth.Edit{NotBefore: &later})
	if err != nil || b.Phase != berth.PhaseNew || b.Queue.Position != 0 {
		t.Fatalf("put off: %+v, %v", b, err)
	}
	dispatch(t, d, 0)
	checkWaits(t, d, "put off", map[string]string{"second": "Dispatch", "first": "NotBefore"})
	early := later.Add(-time.Minute)
	// What is refused is what was asked for, whichever of the two stands in the row.
	second := enqueue(t, d, berth.Request{Name: "by-then", StartDeadline: &early, Spec: spec([]string{"a"}, nil)})
	for field, edit := range map[string]struct {
		berth.Edit
		id uuid.UUID
	}{
		"/startDeadline": {berth.Edit{StartDeadline: &early}, first.ID},
		"/notBefore":     {berth.Edit{NotBefore: &later}, second.ID},
	} {
		_, err := d.Edit(ctx, edit.id, edit.Edit)
		e, _ := errors.AsType[*berth.Error](err)
		if e == nil || len(e.Fields) != 1 || e.Fields[0].Pointer != field {
			t.Errorf("a start deadline before it is due: %v, want it said of %s", err, field)
		}
	}
	if _, err := d.Cancel(ctx, second.ID, ""); err != nil {
		t.Fatal(err)
	}
	b, err = d.Edit(ctx, first.ID, berth.Edit{NotBefore: &time.Time{}})
	if err != nil || b.Phase != berth.PhaseQueued || b.Queue.Position != 1 || !b.EnqueuedAt.Equal(*first.EnqueuedAt) {
		t.Fatalf("due at once: %+v, %v", b, err)
	}
	if diff := cmp.Diff([]string{"first"}, names(dispatch(t, d, 2))); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
}

// A waiting backup that is canceled ends at once and stands in nobody's way; a
// running one is asked to end; one that ended cannot be.
func TestCancel(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	first := enqueue(t, d, request("first", "a"))
	second := enqueue(t, d, request("second", "a"))
	enqueue(t, d, request("third", "a"))
	run := dispatch(t, d, 1)[0]
	dispatch(t, d, 0)
	for range 2 { // twice is once
		b, err := d.Cancel(ctx, second.ID, "ann")
		if err != nil || b.Phase != berth.PhaseCanceled || b.Message != "canceled by ann" || b.CompletedAt == nil {
			t.Fatalf("canceled: %+v, %v", b, err)
		}
	}
	dispatch(t, d, 0)
	checkWaits(t, d, "canceled", map[string]string{"third": "RunningOverlap first a"})
	if b, err := d.Cancel(ctx, first.ID, "ann"); err != nil || b.Phase != berth.PhaseReadyToStart {
		t.Errorf("a running one: %+v, %v", b, err)
	}
	// Whose end was asked for does not come back when its worker is lost.
	expire(t, d, run)
	reap(t, d, 1)
	if b := read(t, d, run); b.Phase != berth.PhaseCanceled {
		t.Errorf("its worker was lost: %+v", b)
	}
	third := dispatch(t, d, 1)[0]
	finish(t, d, third)
	if _, err := d.Cancel(ctx, third.ID, ""); berth.CodeOf(err) != berth.CodeStateConflict {
		t.Errorf("one that ended: %v", err)
	}
}

// What is tried again goes to the end of the queue, with the next attempt and
// the claims of now.
func TestRetry(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a", "web-1")
	first := enqueue(t, d, request("first", "a", "web-*"))
	run := dispatch(t, d, 1)[0]
	if _, err := d.Retry(ctx, first.ID, ""); berth.CodeOf(err) != berth.CodeStateConflict {
		t.Errorf("a running one: %v", err)
	}
	if err := d.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Broken", Errors: 3, FailureReason: "Broken: no"}); err != nil {
		t.Fatal(err)
	}
	enqueue(t, d, request("second", "a"))
	if err := d.ChangeNamespaces(ctx, berth.DefaultCluster, []berth.Namespace{present("web-2")}); err != nil {
		t.Fatal(err)
	}
	b, err := d.Retry(ctx, first.ID, "ann")
	if err != nil || b.Phase != berth.PhaseQueued || b.Attempt != 2 || b.Errors != 0 || b.FailureReason != "" || b.CompletedAt != nil || b.Queue.Position != 2 {
		t.Fatalf("tried again: %+v, %v", b, err)
	}
	if diff := cmp.Diff([]string{"a", "web-1", "web-2"}, b.Namespaces.Names); diff != "" {
		t.Errorf("it claims (-want +got):\n%s", diff)
	}
	for _, want := range []string{"second", "first"} {
		runs := dispatch(t, d, 2)
		if diff := cmp.Diff([]string{want}, names(runs)); diff != "" {
			t.Fatalf("admitted (-want +got):\n%s", diff)
		}
		finish(t, d, runs[0])
	}
	checkLateWrites(t, d, run)
}

// A queue is read page by page: each backup once, in the order of the queue, and
// those that are not due at the end.
func TestQueuePages(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	var want []string
	for i := range 7 {
		enqueue(t, d, request(nth("q", i), "a"))
		want = append(want, nth("q", i))
	}
	for i := range 4 {
		later := time.Now().Add(time.Duration(1+i) * time.Hour)
		if _, err := d.Enqueue(ctx, berth.Request{Name: nth("n", i), NotBefore: &later, Spec: spec([]string{"a"}, nil)}); err != nil {
			t.Fatal(err)
		}
		want = append(want, nth("n", i))
	}
	for limit := 1; limit <= 12; limit++ {
		var found []string
		after := ""
		for {
			q, err := d.Queue(ctx, berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: limit, After: after})
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range q.Waiting {
				found = append(found, b.Name)
				if position := len(found); b.Phase == berth.PhaseQueued && b.Queue.Position != position {
					t.Errorf("pages of %d: %s has position %d, want %d", limit, b.Name, b.Queue.Position, position)
				}
			}
			if after = q.Next; after == "" {
				break
			}
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
	for _, cursor := range []string{"x", "c2VxOjE", "cXVldWU6dHJ1ZToxOjE ", "cXVldWU6ZmFsc2U6LTMwMDAwMDAwMDAwMDAwMDAwMDox"} {
		if _, err := d.Queue(ctx, berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1, After: cursor}); berth.CodeOf(err) != berth.CodeMalformedRequest {
			t.Errorf("the cursor %q: %v", cursor, err)
		}
	}
}
