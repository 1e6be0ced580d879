package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api/client"
)

// Postgres goes away in the middle of a run and comes back. Polls are rare
// here, so that what starts afterwards starts because of a hint.
func TestProcessesOutlastAnOutageOfPostgres(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	link, databaseURL := newLink(t, h.database.URL)
	h.environment = append(h.environment, "BERTH_DATABASE_URL="+databaseURL)
	server := h.startServer("--recheck-interval", "10m")
	shop, other := h.namespace("shop", 2), h.namespace("other", 1)
	list := h.gate.hold(t, listOfConfigMaps(shop))
	worker := h.startWorker("--recheck-interval", "10m")
	a := h.post("a", shop)
	list.await()

	link.cut()
	h.refusedAsNotReady()
	// What the engine has done by now is not thrown away.
	list.release()
	await(t, "the archive is written", func() bool { return h.artefacts("a")["a-results.gz"] != "" })
	link.mend()

	if done := h.awaitPhase(a, berth.PhaseCompleted); done.Attempt != 1 {
		t.Errorf("a took %d attempts", done.Attempt)
	}
	h.awaitReady()
	b := h.postThrough("b", other)
	h.awaitPhase(b, berth.PhaseCompleted)

	// A restart of the server ends the connections with an error of its own.
	h.terminateConnections()
	c := h.postThrough("c", other)
	h.awaitPhase(c, berth.PhaseCompleted)
	for _, id := range []uuid.UUID{a, b, c} {
		h.awaitMirror(id)
	}
	for _, p := range []*process{worker, server} {
		p.signal(syscall.SIGTERM)
		if code := p.awaitEnd(); code != 0 {
			t.Errorf("%s ended with %d", p.name, code)
		}
	}
}

// Postgres does not answer, and no connection breaks.
func TestProcessesOutlastASilentPostgres(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	link, databaseURL := newLink(t, h.database.URL)
	h.environment = append(h.environment, "BERTH_DATABASE_URL="+databaseURL)
	h.startServer()
	shop := h.namespace("shop", 2)
	list := h.gate.hold(t, listOfConfigMaps(shop))
	// The lease outlasts the silence, the renewals notice it soon.
	h.startWorker("--lease-renew", "2s")
	a := h.post("a", shop)
	list.await()

	link.freeze()
	h.refusedAsNotReady()
	list.release()
	link.thaw()
	if done := h.awaitPhase(a, berth.PhaseCompleted); done.Attempt != 1 {
		t.Errorf("a took %d attempts", done.Attempt)
	}
	h.awaitReady()
	h.awaitPhase(h.postThrough("b", shop), berth.PhaseCompleted)
}

// refusedAsNotReady checks what the server answers while its database is away.
func (h *house) refusedAsNotReady() {
	h.Helper()
	var all sync.WaitGroup
	for _, request := range []struct{ method, path, body string }{
		{http.MethodPost, "/backups", `{"name":"never","spec":{}}`},
		{http.MethodGet, "/backups", ""},
		{http.MethodGet, "/queue", ""},
		{http.MethodGet, "/readyz", ""},
	} {
		all.Go(func() {
			answer, problem, err := ask(h.url, request.method, request.path, request.body)
			if err != nil || answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" ||
				problem.Code != berth.CodeNotReady || !problem.Retryable {
				h.Errorf("%s %s: %+v, %+v, %v", request.method, request.path, answer, problem, err)
			}
		})
	}
	all.Wait()
	if answer, err := h.api.GetLivezWithResponse(h.Context()); err != nil || answer.JSON200 == nil {
		h.Errorf("/livez: %+v, %v", answer, err)
	}
}

// ask sends a request that is answered with a problem.
func ask(url, method, path, body string) (answer *http.Response, problem client.Problem, err error) {
	request, err := http.NewRequest(method, url+path, strings.NewReader(body))
	if err != nil {
		return nil, problem, err
	}
	request.Header.Set("Content-Type", "application/json")
	if answer, err = asker.Do(request); err != nil {
		return nil, problem, err
	}
	defer func() { _ = answer.Body.Close() }()
	return answer, problem, json.NewDecoder(answer.Body).Decode(&problem)
}

func (h *house) awaitReady() {
	h.Helper()
	await(h.T, "/readyz answers ok", func() bool {
		answer, err := h.api.GetReadyzWithResponse(h.Context())
		return err == nil && answer.JSON200 != nil
	})
}

// postThrough asks for a backup until it is taken, as a client does that is
// told to retry.
func (h *house) postThrough(name string, namespaces ...string) (id uuid.UUID) {
	h.Helper()
	await(h.T, "POST /backups is answered 201", func() bool {
		answer, err := h.api.CreateBackupWithResponse(h.Context(), nil, client.BackupRequest{
			Name: &name, Spec: berth.Spec{IncludedNamespaces: namespaces},
		})
		if err != nil {
			h.Fatal(err)
		}
		switch {
		case answer.JSON201 != nil:
			id = answer.JSON201.ID
		case answer.ApplicationProblemJSON409 != nil:
			// The first answer was lost, not the backup.
			id = *answer.ApplicationProblemJSON409.ExistingID
		case answer.ApplicationProblemJSON503 == nil:
			h.Fatalf("POST /backups: %s: %s", answer.HTTPResponse.Status, answer.Body)
		}
		return id != uuid.Nil
	})
	return id
}

// terminateConnections ends all sessions of the test's database but its own.
func (h *house) terminateConnections() {
	h.Helper()
	h.execute(`select pg_terminate_backend(pid) from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid()`)
}
