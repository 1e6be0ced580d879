package backup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/worker/backup"
)

func (f *fixture) contents() map[string]string {
	f.Helper()
	all := map[string]string{}
	for _, name := range f.storeHolds() {
		all[name] = string(f.object(name))
	}
	return all
}

func (f *fixture) put(name, body string) {
	f.Helper()
	if err := f.store.Put(f.Context(), "nightly", name, []byte(body)); err != nil {
		f.Fatal(err)
	}
}

func ownerJSON(r berth.Run) string {
	body, _ := json.Marshal(map[string]any{"uid": r.ID, "attempt": r.Attempt, "fence": r.Fence})
	return string(body)
}

func TestAFolderOfAnotherIsRefusedAndUntouched(t *testing.T) {
	t.Parallel()
	other := run()
	other.ID = uuid.Must(uuid.NewV7())
	for name, objects := range map[string]map[string]string{
		"being written by another backup":  {"nightly-berth.json": ownerJSON(other)},
		"whose owner cannot be read":       {"nightly-berth.json": "?"},
		"published by another backup":      {"velero-backup.json": `{"metadata":{"annotations":{"berth-backup.io/id":"` + other.ID.String() + `"}}}`},
		"published by Velero":              {"velero-backup.json": `{"metadata":{"name":"nightly"}}`, "nightly.tar.gz": "x"},
		"published, but not as JSON":       {"velero-backup.json": "?"},
		"half written by another program":  {"nightly.tar.gz": "x"},
		"of notes that a person put there": {"README": "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			for object, body := range objects {
				f.put(object, body)
			}
			_, err := backup.Take(t.Context(), f.cluster, f.store, backup.Job{Run: run(f.namespace("refused"))})
			if o := failureOf(t, err).Outcome(); o.Phase != berth.PhaseFailed || o.Reason != backup.ReasonNameTaken || !strings.Contains(o.Message, "nightly") {
				t.Errorf("the outcome is %+v", o)
			}
			if got := f.contents(); !maps.Equal(got, objects) {
				t.Errorf("the store holds %q", got)
			}
		})
	}
}

func TestADeadAttemptIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := run(f.namespace("dead"))
	f.take(backup.Job{Run: r})
	f.put("nightly-of-an-older-version.gz", "x")
	dead := f.contents()

	taken := f.takeAndPublish(nextAttempt(r))
	if taken.Adopted {
		t.Error("what was never published was adopted")
	}
	if got := f.storeHolds(); !slices.Equal(got, whole) {
		t.Errorf("the store holds %q", got)
	}
	if string(f.object("nightly-berth.json")) == dead["nightly-berth.json"] {
		t.Error("the owner is still the dead attempt")
	}
}

func TestALaterAttemptIsNeverDisturbed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := run(f.namespace("late"))
	f.take(backup.Job{Run: nextAttempt(r)})
	before := f.contents()
	if _, err := backup.Take(t.Context(), f.cluster, f.store, backup.Job{Run: r}); !errors.Is(err, berth.ErrLeaseLost) {
		t.Errorf("Take of the earlier attempt: %v", err)
	}
	if got := f.contents(); !maps.Equal(got, before) {
		t.Error("the earlier attempt changed the store")
	}
}

func TestAnAttemptThatWasOvertakenDoesNotPublish(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := run(f.namespace("overtaken"))
	early := f.take(backup.Job{Run: r})
	late := f.take(backup.Job{Run: nextAttempt(r)})
	before := f.contents()
	if err := early.Publish(t.Context(), rowOf(r, early.Outcome), "velero"); !errors.Is(err, berth.ErrLeaseLost) {
		t.Errorf("Publish of the earlier attempt: %v", err)
	}
	if got := f.contents(); !maps.Equal(got, before) {
		t.Error("the earlier attempt changed the store")
	}
	if err := late.Publish(t.Context(), rowOf(nextAttempt(r), late.Outcome), "velero"); err != nil {
		t.Error(err)
	}
	// Once published the earlier one still learns that it is late.
	if _, err := backup.Take(t.Context(), f.cluster, f.store, backup.Job{Run: r}); !errors.Is(err, berth.ErrLeaseLost) {
		t.Errorf("Take of the earlier attempt: %v", err)
	}
}

func TestWhatAFormerAttemptPublishedIsAdopted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := run(f.namespace("adopted"))
	r.Contents.Missing = []string{"nowhere"}
	first := f.takeAndPublish(r)
	before := f.contents()

	again := f.take(backup.Job{Run: nextAttempt(r)})
	if !again.Adopted {
		t.Fatal("not adopted")
	}
	want := first.Outcome
	want.Progress.Bytes = 0 // the record does not hold them
	if diff := cmp.Diff(want, again.Outcome); diff != "" {
		t.Errorf("the adopted outcome differs (-recorded +adopted):\n%s", diff)
	}
	if !slices.Equal(again.Artefacts, first.Artefacts) {
		t.Errorf("the adopted artefacts are %+v, want %+v", again.Artefacts, first.Artefacts)
	}
	if err := again.Publish(t.Context(), rowOf(nextAttempt(r), again.Outcome), "velero"); err != nil {
		t.Error(err)
	}
	if got := f.contents(); !maps.Equal(got, before) {
		t.Error("adoption changed the store")
	}
}

func TestABackupThatIsNotWholeIsNotAdopted(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(f *fixture){
		"an object is lost":    func(f *fixture) { f.remove("nightly-logs.gz") },
		"the archive differs":  func(f *fixture) { f.remove("nightly.tar.gz"); f.put("nightly.tar.gz", "x") },
		"the owner is lost":    func(f *fixture) { f.remove("nightly-berth.json") },
		"a checksum is lost":   func(f *fixture) { f.editRecord(`berth-backup.io/sha256.results.gz`, `x`) },
		"the fence is garbled": func(f *fixture) { f.editRecord(`"berth-backup.io/fence": "7"`, `"berth-backup.io/fence": "?"`) },
		"it has not ended":     func(f *fixture) { f.editRecord(`"phase": "Completed"`, `"phase": "InProgress"`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			r := run(f.namespace("spoiled"))
			f.takeAndPublish(r)
			spoil(f)
			if taken := f.takeAndPublish(nextAttempt(r)); taken.Adopted {
				t.Error("adopted")
			}
			if got := f.storeHolds(); !slices.Equal(got, whole) {
				t.Errorf("the store holds %q", got)
			}
			if !strings.Contains(string(f.object("velero-backup.json")), `"berth-backup.io/fence": "17"`) {
				t.Error("the record is not the new attempt's")
			}
		})
	}
}

func (f *fixture) remove(name string) {
	f.Helper()
	if err := f.store.Delete(f.Context(), "nightly", name); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) editRecord(old, replacement string) {
	f.Helper()
	body := string(f.object("velero-backup.json"))
	if !strings.Contains(body, old) {
		f.Fatalf("%s does not stand in %s", old, body)
	}
	f.remove("velero-backup.json")
	f.put("velero-backup.json", strings.Replace(body, old, replacement, 1))
}

func TestPublishFailsWhereAnObjectIsLost(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(f *fixture){
		"gone":           func(f *fixture) { f.remove("nightly-results.gz") },
		"shorter":        func(f *fixture) { f.remove("nightly.tar.gz"); f.put("nightly.tar.gz", "x") },
		"the owner gone": func(f *fixture) { f.remove("nightly-berth.json") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			r := run(f.namespace("lost"))
			taken := f.take(backup.Job{Run: r})
			spoil(f)
			err := taken.Publish(t.Context(), rowOf(r, taken.Outcome), "velero")
			if _, failed := errors.AsType[*backup.Failure](err); err == nil || failed {
				t.Errorf("Publish: %v, want an error that another attempt mends", err)
			}
			if slices.Contains(f.storeHolds(), "velero-backup.json") {
				t.Error("the backup is visible")
			}
		})
	}
}

// An answer that is lost makes a write of this attempt's own stand in its way;
// a late write of a dead attempt does the same.
func TestObjectsInTheWayAreSettled(t *testing.T) {
	t.Parallel()
	for name, intrude := range map[string]func(s *intruder, object string, body []byte) error{
		"its own, the answer was lost": func(s *intruder, object string, body []byte) error {
			return s.Store.Put(s.ctx, "nightly", object, body)
		},
		"of a dead attempt": func(s *intruder, object string, _ []byte) error {
			return s.Store.Put(s.ctx, "nightly", object, []byte("late"))
		},
	} {
		for _, object := range []string{"nightly-berth.json", "nightly-results.gz", "velero-backup.json"} {
			if name == "of a dead attempt" && object != "nightly-results.gz" {
				continue // those two say whose they are: other tests
			}
			t.Run(name+", "+object, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				r := run(f.namespace("in-the-way"))
				store := &intruder{Store: f.store, ctx: t.Context(), object: object, intrude: intrude}
				taken, err := backup.Take(t.Context(), f.cluster, store, backup.Job{Run: r})
				if err != nil {
					t.Fatal(err)
				}
				if err := taken.Publish(t.Context(), rowOf(r, taken.Outcome), "velero"); err != nil {
					t.Fatal(err)
				}
				if !store.done {
					t.Error("nothing was put in the way")
				}
				if got := f.storeHolds(); !slices.Equal(got, whole) {
					t.Errorf("the store holds %q", got)
				}
				if !f.take(backup.Job{Run: r}).Adopted {
					t.Error("what was published does not verify")
				}
			})
		}
	}
}

// intruder is a store in which, once, something stands in the way of a write.
type intruder struct {
	backup.Store
	ctx     context.Context
	object  string
	intrude func(s *intruder, object string, body []byte) error
	done    bool
}

func (s *intruder) Create(ctx context.Context, name, object string) (io.WriteCloser, error) {
	w, err := s.Store.Create(ctx, name, object)
	if err != nil || object != s.object || s.done {
		return w, err
	}
	s.done = true
	return &intrudedWriter{WriteCloser: w, store: s}, nil
}

type intrudedWriter struct {
	io.WriteCloser
	store *intruder
	body  bytes.Buffer
}

func (w *intrudedWriter) Write(p []byte) (int, error) {
	w.body.Write(p)
	return w.WriteCloser.Write(p)
}

func (w *intrudedWriter) Close() error {
	if err := w.store.intrude(w.store, w.store.object, w.body.Bytes()); err != nil {
		return err
	}
	err := w.WriteCloser.Close()
	if !errors.Is(err, fs.ErrExist) {
		return errors.New("the store let an object take the place of another")
	}
	return err
}
