package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api"
	"github.com/berth-backup/berth/db/dbtest"
)

// live is the API on a database of the test's own, every exchange of which is
// checked as those with a store that is made up.
type live struct {
	*testing.T
	url    string
	client *http.Client
	store  *dbtest.Database
}

func onRealStore(t *testing.T) live {
	t.Helper()
	d := dbtest.New(t)
	location := berth.StorageLocation{Cluster: berth.DefaultCluster, Name: berth.DefaultStorageLocation, URL: "file:///data"}
	if err := d.SetStorageLocation(t.Context(), location); err != nil {
		t.Fatal(err)
	}
	url, client := serve(t, d.Store)
	return live{T: t, url: url, client: client, store: d}
}

// do sends a request, wants the status and reads the answer into result.
func (l live) do(status int, method, path, body string, result any, header ...string) *http.Response {
	l.Helper()
	answer, received := send(l.T, l.client, method, l.url+path, body, header...)
	if answer.StatusCode != status {
		l.Fatalf("%s %s %s: got %d, want %d: %s", method, path, body, answer.StatusCode, status, received)
	}
	if result != nil {
		if err := json.Unmarshal(received, result); err != nil {
			l.Fatalf("%s %s: %v: %s", method, path, err, received)
		}
	}
	return answer
}

func (l live) create(name, namespace, more string) api.Backup {
	l.Helper()
	var b api.Backup
	l.do(201, "POST", "/backups", fmt.Sprintf(`{"name":%q,"spec":{"includedNamespaces":[%q]}%s}`, name, namespace, more), &b)
	return b
}

// waiting are the names of those that wait, in order.
func (l live) waiting() []string {
	l.Helper()
	var queue api.Queue
	l.do(200, "GET", "/queue", "", &queue)
	var names []string
	for _, b := range queue.Waiting {
		names = append(names, b.Name)
	}
	return names
}

func in(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }

func TestSettingsOnTheRealStore(t *testing.T) {
	t.Parallel()
	l := onRealStore(t)
	var settings api.QueueSettings
	read := l.do(200, "GET", "/queue/settings", "", &settings).Header.Get("ETag")
	first := settings.Version
	if settings.ConcurrentBackups != 1 || settings.ItemBlockWorkerCount != 1 || settings.MaxQueued != nil || settings.Paused != nil {
		t.Errorf("a new cluster has the settings %+v", settings)
	}

	const patch = `{"concurrentBackups":3,"maxQueued":2}`
	l.do(428, "PATCH", "/queue/settings", patch, nil)
	changed := l.do(200, "PATCH", "/queue/settings", patch, &settings, "If-Match", read).Header.Get("ETag")
	if settings.ConcurrentBackups != 3 || *settings.MaxQueued != 2 || settings.Version <= first || changed == read {
		t.Errorf("changed to %+v under %s", settings, changed)
	}
	l.do(412, "PATCH", "/queue/settings", `{"concurrentBackups":9}`, nil, "If-Match", read)
	again := l.do(200, "PATCH", "/queue/settings", `{}`, nil, "If-Match", changed).Header.Get("ETag")
	if shown := l.do(200, "GET", "/queue/settings", "", nil).Header.Get("ETag"); again != changed || shown != changed {
		t.Errorf("nothing was changed, but the tag went from %s to %s and %s", changed, again, shown)
	}
	l.do(200, "PATCH", "/queue/settings", `{"maxQueued":null}`, &settings, "If-Match", "*")
	if settings.MaxQueued != nil || settings.ConcurrentBackups != 3 {
		t.Errorf("without a cap: %+v", settings)
	}
	l.do(404, "PATCH", "/queue/settings?cluster=nowhere", patch, nil, "If-Match", "*")
	l.do(404, "GET", "/queue/settings?cluster=nowhere", "", nil)
}

func TestPauseOnTheRealStore(t *testing.T) {
	t.Parallel()
	l := onRealStore(t)
	l.create("a", "shop", "")
	until := in(time.Hour)
	pause := fmt.Sprintf(`{"reason":"upgrade","by":"ops","until":%q}`, until)
	var settings api.QueueSettings
	first := l.do(200, "POST", "/queue/pause", pause, &settings).Header.Get("ETag")
	if p := settings.Paused; p == nil || *p.Reason != "upgrade" || *p.By != "ops" || p.Until.Format(time.RFC3339) != until {
		t.Errorf("paused: %+v", settings.Paused)
	}
	if again := l.do(200, "POST", "/queue/pause", pause, nil).Header.Get("ETag"); again != first {
		t.Errorf("the same pause once more changed %s to %s", first, again)
	}
	var queue api.Queue
	l.do(200, "GET", "/queue", "", &queue)
	if diff := cmp.Diff(settings.Paused, queue.Paused); diff != "" || queue.Waiting[0].Queue.BlockedBy[0].Reason != berth.WaitQueuePaused {
		t.Errorf("the queue says %+v of its first backup; its pause (-settings +queue):\n%s", queue.Waiting[0].Queue, diff)
	}
	l.do(200, "POST", "/queue/resume", "", &settings)
	if l.do(200, "POST", "/queue/resume", "", nil); settings.Paused != nil {
		t.Errorf("resumed: %+v", settings.Paused)
	}
	l.do(404, "POST", "/queue/pause", `{"cluster":"nowhere"}`, nil)
	l.do(404, "POST", "/queue/resume", `{"cluster":"nowhere"}`, nil)
}

func TestPriorityAndDueTimesOnTheRealStore(t *testing.T) {
	t.Parallel()
	l := onRealStore(t)
	due := in(2 * time.Hour)
	l.create("first", "a", "")
	second := l.create("second", "b", "")
	urgent := l.create("urgent", "c", `,"priority":60`)
	tonight := l.create("tonight", "d", fmt.Sprintf(`,"notBefore":%q,"startDeadline":%q`, due, in(3*time.Hour)))
	if tonight.Phase != berth.PhaseNew || tonight.Queue.Position != nil || tonight.Queue.BlockedBy[0].Reason != berth.WaitNotBefore ||
		tonight.NotBefore.Format(time.RFC3339) != due || tonight.StartDeadline == nil || urgent.Priority != 60 || *urgent.Queue.Position != 1 {
		t.Errorf("not due: %+v; urgent: %+v", tonight, urgent)
	}
	if diff := cmp.Diff([]string{"urgent", "first", "second", "tonight"}, l.waiting()); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}

	var edited api.Backup
	edit := func(status int, id uuid.UUID, patch string) {
		t.Helper()
		l.do(status, "PATCH", "/backups/"+id.String(), patch, &edited, "Content-Type", "application/merge-patch+json")
	}
	edit(200, second.ID, `{"priority":120}`)
	edit(200, tonight.ID, `{"notBefore":null,"startDeadline":null}`)
	if edited.Phase != berth.PhaseQueued || edited.Queue.Position == nil || edited.NotBefore != nil || edited.StartDeadline != nil {
		t.Errorf("due at once: %+v", edited)
	}
	edit(200, urgent.ID, fmt.Sprintf(`{"notBefore":%q}`, due))
	if edited.Phase != berth.PhaseNew || edited.Priority != 60 {
		t.Errorf("put off: %+v", edited)
	}
	if diff := cmp.Diff([]string{"second", "first", "tonight", "urgent"}, l.waiting()); diff != "" {
		t.Errorf("waiting after the edits (-want +got):\n%s", diff)
	}
	version := edited.Version
	if edit(200, urgent.ID, `{}`); edited.Version != version {
		t.Errorf("an empty patch moved the version from %d to %d", version, edited.Version)
	}

	if _, err := l.store.Cancel(t.Context(), second.ID, ""); err != nil {
		t.Fatal(err)
	}
	var problem api.Problem
	l.do(409, "PATCH", "/backups/"+second.ID.String(), `{"priority":1}`, &problem)
	if problem.Code != berth.CodeStateConflict || !strings.Contains(problem.Detail, string(berth.PhaseCanceled)) {
		t.Errorf("to edit what has ended: %+v", problem)
	}
	l.do(404, "PATCH", "/backups/"+missingID, `{"priority":1}`, nil)
}

func TestAFullQueueOnTheRealStore(t *testing.T) {
	t.Parallel()
	l := onRealStore(t)
	l.do(200, "PATCH", "/queue/settings", `{"maxQueued":1}`, nil, "If-Match", "*")
	l.create("a", "shop", "")
	for _, path := range []string{"/backups", "/backups?dryRun=true"} {
		var problem api.Problem
		answer := l.do(429, "POST", path, `{"spec":{}}`, &problem)
		if problem.Code != berth.CodeQueueFull || !problem.Retryable || answer.Header.Get("Retry-After") != "30" {
			t.Errorf("%s: %+v, Retry-After %s", path, problem, answer.Header.Get("Retry-After"))
		}
	}
}

func TestPagesOfTheQueueOnTheRealStore(t *testing.T) {
	t.Parallel()
	l := onRealStore(t)
	var want []string
	for i := range 5 {
		want = append(want, l.create(fmt.Sprintf("b%d", i), "shop", "").Name)
	}
	want = append(want, l.create("later", "shop", fmt.Sprintf(`,"notBefore":%q`, in(time.Hour))).Name)
	var got []string
	for after := ""; ; {
		var page api.Queue
		l.do(200, "GET", "/queue?limit=4&cursor="+after, "", &page)
		for _, b := range page.Waiting {
			got = append(got, b.Name)
		}
		if page.NextCursor == nil {
			break
		}
		after = *page.NextCursor
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("all pages (-want +got):\n%s", diff)
	}
	l.do(400, "GET", "/queue?cursor=nothing", "", nil)
}

func TestExplainOnTheRealStore(t *testing.T) {
	t.Parallel()
	l := onRealStore(t)
	first := l.create("first", "shop", "")
	second := l.create("second", "shop", "")
	third := l.create("third", "shop", "")
	var e api.Explanation
	l.do(200, "GET", third.Links.Explain, "", &e)
	refs := []api.BackupRef{{ID: first.ID, Name: "first"}, {ID: second.ID, Name: "second"}}
	if diff := cmp.Diff(refs, e.MustEnd); diff != "" || *e.Position != 3 || e.Backup.Phase != berth.PhaseQueued {
		t.Errorf("explained as %+v; mustEnd (-want +got):\n%s", e, diff)
	}
	noWorker := api.Blocker{Reason: berth.WaitNoWorker, Namespaces: []string{}}
	chain := []api.ChainLink{{Backup: refs[1], Phase: berth.PhaseQueued, BlockedBy: &noWorker}}
	if diff := cmp.Diff(chain, e.Chain); diff != "" {
		t.Errorf("chain (-want +got):\n%s", diff)
	}
	const want = "waits for a worker of its cluster, then for first (queued, shares shop) and second (queued, shares shop)"
	if e.Summary != want {
		t.Errorf("summary: %q, want %q", e.Summary, want)
	}
	l.do(404, "GET", "/backups/"+missingID+"/explain", "", nil)
}

// A prediction is what then happens, and to predict changes nothing.
func TestPredictionsOnTheRealStore(t *testing.T) {
	t.Parallel()
	l := onRealStore(t)
	l.create("first", "shop", "")
	var before api.Queue
	l.do(200, "GET", "/queue", "", &before)

	const request = `{"name":"second","priority":-5,"spec":{"includedNamespaces":["shop"]}}`
	var predicted api.Prediction
	l.do(200, "POST", "/backups?dryRun=true", request, &predicted)
	var forecast api.Forecast
	l.do(200, "POST", "/queue/simulate", `{"concurrentBackups":2,"add":[`+request+`]}`, &forecast)
	var after api.Queue
	l.do(200, "GET", "/queue", "", &after)
	if len(after.Waiting) != 1 || after.Version != before.Version {
		t.Errorf("predictions changed the queue from version %d to %d, waiting: %d", before.Version, after.Version, len(after.Waiting))
	}

	if predicted.Starts || *predicted.Queue.Position != 2 || *predicted.Name != "second" || predicted.Queue.ETA.Basis != berth.BasisNoWorker {
		t.Errorf("predicted: %+v", predicted)
	}
	added := forecast.Waiting[1]
	if forecast.ConcurrentBackups != 2 || !added.Added || added.Backup.ID != nil || *added.Backup.Name != "second" || *added.Position != 2 || added.Now != nil {
		t.Errorf("forecast: %+v", forecast)
	}

	var created api.Backup
	l.do(201, "POST", "/backups", request, &created)
	if diff := cmp.Diff(predicted.Queue.Position, created.Queue.Position); diff != "" {
		t.Errorf("position (-predicted +real):\n%s", diff)
	}
	if diff := cmp.Diff(predicted.Namespaces, created.Namespaces); diff != "" {
		t.Errorf("namespaces (-predicted +real):\n%s", diff)
	}
	if diff := cmp.Diff(predicted.Spec, created.Spec); diff != "" {
		t.Errorf("spec (-predicted +real):\n%s", diff)
	}

	l.do(409, "POST", "/backups?dryRun=true", request, nil)
	for path, body := range map[string]string{
		"/backups?dryRun=true": `{"spec":{"storageLocation":"nowhere"}}`,
		"/queue/simulate":      `{"add":[{"spec":{"storageLocation":"nowhere"}}],"cancel":["` + missingID + `"]}`,
	} {
		var problem api.Problem
		l.do(422, "POST", path, body, &problem)
		want := map[string]map[string]string{
			"/backups?dryRun=true": {"/spec/storageLocation": "not-found"},
			"/queue/simulate":      {"/add/0/spec/storageLocation": "not-found", "/cancel/0": "not-found"},
		}[path]
		if diff := cmp.Diff(want, places(problem)); diff != "" {
			t.Errorf("%s: errors (-want +got):\n%s", path, diff)
		}
	}
	l.do(404, "POST", "/queue/simulate", `{"cluster":"nowhere"}`, nil)
}
