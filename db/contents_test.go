package db_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-backup/berth"
)

// A worker that finds namespaces which counted as missing has them in its contents;
// what nobody named changes nothing, and neither does a worker without its lease.
func TestMissingNamespacesAreFound(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a", "b")
	change(t, d, labelled("out"))
	b := enqueue(t, d, request("late", "a", "out", "came", "ghost", "hidden"))
	run := dispatch(t, d, 1)[0]
	found := []berth.Namespace{present("a"), present("b"), present("came"), labelled("hidden")}
	want := berth.Contents{Names: []string{"a", "came"}, Missing: []string{"ghost"}, Excluded: []string{"hidden", "out"}}
	for _, when := range []string{"at first", "where the answer was lost"} {
		got, err := d.CompleteContents(t.Context(), run, found)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, contents (-want +got):\n%s", when, err, diff)
		}
	}
	n := read(t, d, run).Namespaces
	if diff := cmp.Diff(want, berth.Contents{Names: n.Frozen, Missing: n.Missing, Excluded: n.Excluded}); diff != "" {
		t.Errorf("the row (-want +got):\n%s", diff)
	}
	checkAudit(t, connect(t, d.URL), "completed")

	late := run
	late.Fence--
	if _, err := d.CompleteContents(t.Context(), late, found); !errors.Is(err, berth.ErrLeaseLost) {
		t.Errorf("without the lease: %v", err)
	}
	finish(t, d, run)
	if _, err := d.CompleteContents(t.Context(), run, []berth.Namespace{present("ghost")}); !errors.Is(err, berth.ErrLeaseLost) {
		t.Errorf("after the end: %v", err)
	}
	after, err := d.Backup(t.Context(), b.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Missing, after.Namespaces.Missing, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("what is missing in the end (-want +got):\n%s", diff)
	}
}
