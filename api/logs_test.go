package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api"
)

// What an attempt has said so far is read as text, the newest attempt's by default.
func TestLogsOnTheRealStore(t *testing.T) {
	t.Parallel()
	l := onRealStore(t)
	b := l.create("nightly", "shop", "")
	read := func(path, want string) {
		t.Helper()
		answer, text := send(l.T, l.client, "GET", l.url+path, "")
		if answer.StatusCode != 200 || string(text) != want || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("GET %s: %d, %s: %q, want %q", path, answer.StatusCode, answer.Header.Get("Content-Type"), text, want)
		}
	}
	admit := func() berth.Run {
		t.Helper()
		done, err := l.store.Dispatch(t.Context(), berth.DispatchRequest{Cluster: berth.DefaultCluster, Worker: "w", Want: 1, LeaseTTL: time.Minute})
		if err != nil || len(done.Runs) != 1 {
			t.Fatalf("%+v, %v", done, err)
		}
		return done.Runs[0]
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	read(b.Links.Logs, "")
	first := admit()
	must(l.store.AppendLog(t.Context(), first, 0, "one\n"))
	must(l.store.AppendLog(t.Context(), first, 1, "two \x00 \xff\n"))
	must(l.store.AppendLog(t.Context(), first, 1, "two once more\n")) // its answer was lost
	read(b.Links.Logs, "one\ntwo ? ?\n")
	must(l.store.Release(t.Context(), first, "the worker shuts down"))
	if err := l.store.AppendLog(t.Context(), first, 2, "late\n"); err == nil {
		t.Error("a lost lease wrote")
	}
	must(l.store.GiveUp(t.Context(), admit(), "StorageLost", "away"))
	read(b.Links.Logs, "one\ntwo ? ?\n")
	read(b.Links.Logs+"?attempt=2", "")
	var got api.Backup
	l.do(200, "GET", b.Links.Self, "", &got)
	if got.Attempt != 2 {
		t.Errorf("attempt %d", got.Attempt)
	}
	l.do(404, "GET", "/backups/"+missingID+"/logs", "", nil)
}
