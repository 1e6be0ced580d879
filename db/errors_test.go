package db_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/db/dbtest"
)

func fieldsOf(tb testing.TB, err error) []string {
	tb.Helper()
	e, ok := errors.AsType[*berth.Error](err)
	if !ok {
		tb.Fatalf("%v is no error of berth's", err)
	}
	var fields []string
	for _, f := range e.Fields {
		fields = append(fields, f.Pointer+f.Parameter+" "+f.Code)
	}
	slices.Sort(fields)
	return fields
}

// A name that a backup of the cluster has is refused with that backup's id;
// another cluster may have it.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)
	first := enqueue(t, d, request("taken", "a"))
	_, err := d.Enqueue(ctx, request("taken", "b"))
	e, ok := errors.AsType[*berth.Error](err)
	if !ok || e.Code != berth.CodeNameTaken || e.ExistingID != first.ID.String() {
		t.Errorf("the same name again: %v", err)
	}
	if err := d.AddCluster(ctx, "other"); err != nil {
		t.Fatal(err)
	}
	if err := d.SetStorageLocation(ctx, berth.StorageLocation{Cluster: "other", Name: berth.DefaultStorageLocation, URL: "file:///other"}); err != nil {
		t.Fatal(err)
	}
	r := request("taken", "a")
	r.Cluster = "other"
	enqueue(t, d, r)

	// Of many who ask for one name, one gets it, and the others its id.
	var all []func() error
	codes := make([]berth.Code, 6)
	for i := range codes {
		all = append(all, func() error {
			_, err := d.Enqueue(ctx, request("raced", "a"))
			codes[i] = berth.CodeOf(err)
			if e, ok := errors.AsType[*berth.Error](err); ok && e.ExistingID == "" {
				return err
			}
			return nil
		})
	}
	if err := race(all...); err != nil {
		t.Error(err)
	}
	slices.Sort(codes)
	want := []berth.Code{"", berth.CodeNameTaken, berth.CodeNameTaken, berth.CodeNameTaken, berth.CodeNameTaken, berth.CodeNameTaken}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
}

// What rows can tell is refused together with what the request itself tells.
func TestEnqueueRefusesEverythingAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)
	if err := d.SetStorageLocation(ctx, berth.StorageLocation{Cluster: berth.DefaultCluster, Name: "archive", URL: "file:///archive"}); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, d.URL).Exec(ctx, "UPDATE storage_locations SET read_only = true WHERE name = 'archive'"); err != nil {
		t.Fatal(err)
	}
	at := func(location string, includes ...string) berth.Spec {
		return berth.Spec{StorageLocation: location, IncludedNamespaces: includes}
	}
	tests := map[string]struct {
		request berth.Request
		want    []string
	}{
		"unknown cluster":         {berth.Request{Cluster: "nowhere", Spec: at("", "**")}, []string{"/cluster not-found", "/spec/includedNamespaces/0 invalid"}},
		"unknown location":        {berth.Request{Name: "No", Spec: at("nowhere")}, []string{"/name invalid", "/spec/storageLocation not-found"}},
		"read-only location":      {berth.Request{Spec: at("archive", "*", "a")}, []string{"/spec/includedNamespaces/0 invalid", "/spec/storageLocation read-only"}},
		"names that nothing has":  {berth.Request{Cluster: "a\x00", Spec: at("b\x00")}, []string{"/cluster invalid", "/spec/storageLocation invalid"}},
		"only the location is no": {berth.Request{Spec: at("b\x00")}, []string{"/spec/storageLocation invalid"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := d.Enqueue(ctx, test.request)
			if berth.CodeOf(err) != berth.CodeValidationFailed {
				t.Fatalf("%v, want %s", err, berth.CodeValidationFailed)
			}
			if diff := cmp.Diff(test.want, fieldsOf(t, err)); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
	if q, err := d.Queue(ctx, berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1000}); err != nil || len(q.Waiting) > 0 {
		t.Errorf("refused, and yet in the queue: %+v, %v", q.Waiting, err)
	}
}

func TestNotFound(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)
	id := uuid.New()
	for what, err := range map[string]error{
		"a backup":         second(d.Backup(ctx, id)),
		"a queue":          second(d.Queue(ctx, berth.QueueOptions{Cluster: "nowhere", Limit: 1000})),
		"a location":       second(d.StorageLocation(ctx, berth.DefaultCluster, "nowhere")),
		"a location's":     second(d.StorageLocation(ctx, "nowhere", berth.DefaultStorageLocation)),
		"a limit":          d.SetConcurrentBackups(ctx, "nowhere", 1),
		"namespaces":       d.SyncNamespaces(ctx, "nowhere", nil),
		"a dequeue":        second(d.Dispatch(ctx, berth.DispatchRequest{Cluster: "nowhere"})),
		"a set location's": d.SetStorageLocation(ctx, berth.StorageLocation{Cluster: "nowhere", Name: "x", URL: "file:///x"}),
	} {
		if berth.CodeOf(err) != berth.CodeNotFound {
			t.Errorf("%s: %v, want %s", what, err, berth.CodeNotFound)
		}
	}
	for what, err := range map[string]error{
		"a queue": second(d.Queue(ctx, berth.QueueOptions{Cluster: "a\x00", Limit: 1000})),
		"a list":  second(d.Backups(ctx, berth.ListOptions{Cluster: "\xff"})),
	} {
		if berth.CodeOf(err) != berth.CodeMalformedRequest {
			t.Errorf("%s of what is no text: %v, want %s", what, err, berth.CodeMalformedRequest)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// operations are one of each kind that reaches the database.
func operations(ctx context.Context, s *db.Store, run berth.Run) map[string]func() error {
	return map[string]func() error{
		"Ready":   func() error { return s.Ready(ctx) },
		"Enqueue": func() error { return second(s.Enqueue(ctx, request("", "a"))) },
		"Backup":  func() error { return second(s.Backup(ctx, run.ID)) },
		"Backups": func() error { return second(s.Backups(ctx, berth.ListOptions{Limit: 1})) },
		"Queue": func() error {
			return second(s.Queue(ctx, berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1000}))
		},
		"Renew": func() error {
			return second(s.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour}))
		},
		"Reap":     func() error { return second(s.Reap(ctx, time.Hour)) },
		"Progress": func() error { return s.Progress(ctx, run, berth.Progress{}) },
		"Dispatch": func() error {
			return second(s.Dispatch(ctx, berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour}))
		},
		"SyncNamespaces":       func() error { return s.SyncNamespaces(ctx, berth.DefaultCluster, nil) },
		"SetConcurrentBackups": func() error { return s.SetConcurrentBackups(ctx, berth.DefaultCluster, 2) },
		"MakePartitions":       func() error { return s.MakePartitions(ctx) },
		"Mirrors":              func() error { return second(s.Mirrors(ctx, berth.DefaultCluster, 1)) },
		"ReleaseStaleWatchers": func() error { return s.ReleaseStaleWatchers(ctx, berth.DefaultCluster) },
		"Listen":               func() error { return s.Listen(ctx, []string{db.ChannelQueue}, func() {}) },
		"Finish": func() error {
			return s.Finish(ctx, run, berth.Outcome{Phase: berth.PhaseFailed, Reason: "Failed"})
		},
	}
}

// While Postgres is away everything says not-ready; when it is back everything
// works, by itself and at once.
func TestPostgresAwayAndBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 2, "a")
	proxy := startProxy(t, d.URL)
	s := openStore(t, proxy.url, 4)
	enqueue(t, d, request("b", "a"))
	run := dispatch(t, d, 1)[0]
	if err := d.Start(ctx, run); err != nil {
		t.Fatal(err)
	}

	// One connection is in the middle of a transaction.
	h := hold(t, d.URL)
	h.gate()
	limited := during(func() error { return s.SetConcurrentBackups(ctx, berth.DefaultCluster, 9) })
	awaitBlocked(t, d.URL, 1)
	proxy.cut()
	if err := limited(); berth.CodeOf(err) != berth.CodeNotReady {
		t.Errorf("cut off in the middle of a transaction: %v, want %s", err, berth.CodeNotReady)
	}
	h.exec("commit")

	for what, operation := range operations(ctx, s, run) {
		if err := operation(); berth.CodeOf(err) != berth.CodeNotReady {
			t.Errorf("%s while Postgres is away: %v, want %s", what, err, berth.CodeNotReady)
		}
	}
	proxy.back()
	for what, operation := range operations(ctx, s, run) {
		if what == "Listen" { // waits for ever when it works
			continue
		}
		if err := operation(); err != nil && !(what == "Progress" && errors.Is(err, berth.ErrLeaseLost)) { // Finish may be before it
			t.Errorf("%s when Postgres is back: %v", what, err)
		}
	}
	checkNoRetries(t, s)
}

// The lists' pages hold every backup once, newest first, also where many were
// made at one instant and more come meanwhile.
func TestListPages(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1)
	var want []string
	for i := range 23 {
		name := fmt.Sprintf("b%02d", i)
		enqueue(t, d, request(name, name))
		want = append(want, name)
	}
	slices.Reverse(want)
	if _, err := connect(t, d.URL).Exec(ctx, "UPDATE backups SET created_at = '2026-11-30', order_key = '2026-11-30'"); err != nil {
		t.Fatal(err)
	}
	var got []string
	o := berth.ListOptions{Limit: 5, Cluster: berth.DefaultCluster}
	for {
		page, err := d.Backups(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) > 5 || len(page.Items) < 5 && page.Next != "" {
			t.Errorf("a page of %d, next %q", len(page.Items), page.Next)
		}
		for _, b := range page.Items {
			got = append(got, b.Name)
		}
		if page.Next == "" {
			break
		}
		o.After = page.Next
		enqueue(t, d, request(fmt.Sprintf("new-%s", page.Items[0].Name), "x"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("all pages (-want +got):\n%s", diff)
	}

	count := func(o berth.ListOptions) (n int, more bool) {
		t.Helper()
		page, err := d.Backups(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Items), page.Next != ""
	}
	dispatch(t, d, 1)
	for _, test := range []struct {
		options berth.ListOptions
		want    int
		more    bool
	}{
		{berth.ListOptions{}, 1, true},
		{berth.ListOptions{Limit: -7}, 1, true},
		{berth.ListOptions{Limit: 27}, 27, false},
		{berth.ListOptions{Limit: 26}, 26, true},
		{berth.ListOptions{Limit: 1_000_000}, 27, false},
		{berth.ListOptions{Limit: 200, Phases: []berth.Phase{berth.PhaseReadyToStart}}, 1, false},
		{berth.ListOptions{Limit: 200, Phases: []berth.Phase{berth.PhaseReadyToStart, berth.PhaseQueued}}, 27, false},
		{berth.ListOptions{Limit: 200, Phases: []berth.Phase{berth.PhaseCompleted}}, 0, false},
		{berth.ListOptions{Limit: 200, Cluster: "nowhere"}, 0, false},
	} {
		if n, more := count(test.options); n != test.want || more != test.more {
			t.Errorf("%+v: %d, more %v; want %d, %v", test.options, n, more, test.want, test.more)
		}
	}
}

func TestCursorsThatNobodyGaveOut(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	for _, cursor := range []string{"x", "!", "c2VxOg", "c2VxOjFh", "MTI", "c2VxOjk5OTk5OTk5OTk5OTk5OTk5OTk5"} {
		_, err := d.Backups(context.Background(), berth.ListOptions{Limit: 1, After: cursor})
		if berth.CodeOf(err) != berth.CodeMalformedRequest {
			t.Errorf("%q: %v, want %s", cursor, err, berth.CodeMalformedRequest)
			continue
		}
		if diff := cmp.Diff([]string{"cursor invalid-cursor"}, fieldsOf(t, err)); diff != "" {
			t.Errorf("%q: fields (-want +got):\n%s", cursor, diff)
		}
	}
}

// A cursor says what it was made of, and nothing else is read as one.
func FuzzCursor(f *testing.F) {
	f.Add(int64(1), "c2VxOjE")
	f.Add(int64(-1<<63), "")
	f.Fuzz(func(t *testing.T, seq int64, text string) {
		if got, err := db.DecodeCursor(db.EncodeCursor(seq)); err != nil || got != seq {
			t.Errorf("%d became %d, %v", seq, got, err)
		}
		if got, err := db.DecodeCursor(text); err == nil && db.EncodeCursor(got) != text {
			t.Errorf("%q was read as %d, whose cursor is %q", text, got, db.EncodeCursor(got))
		}
	})
}
