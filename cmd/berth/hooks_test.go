package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api/client"
	"github.com/berth-backup/berth/internal/devenv"
	"github.com/berth-backup/berth/internal/devenv/kubelet"
)

// postSpec asks for a backup of that spec.
func (h *house) postSpec(name string, spec berth.Spec) uuid.UUID {
	h.Helper()
	answer, err := h.api.CreateBackupWithResponse(h.Context(), nil, client.BackupRequest{Name: &name, Spec: spec})
	if err != nil {
		h.Fatal(err)
	}
	if answer.JSON201 == nil {
		h.Fatalf("POST /backups: %s: %s", answer.HTTPResponse.Status, answer.Body)
	}
	return answer.JSON201.ID
}

// Case A72: a worker is killed while a pod is frozen. The next attempt thaws the
// pod before it does anything else.
func TestAPodThatAKilledWorkerFrozeIsThawedFirst(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	frozen, killed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var mu sync.Mutex
	var ran []string
	node := kubelet.Start(t, devenv.TestKubernetes(t).Config, func(ctx context.Context, c kubelet.Command) error {
		mu.Lock()
		ran = append(ran, strings.Join(c.Words, " "))
		mu.Unlock()
		first := false
		once.Do(func() { first = true })
		if first {
			close(frozen)
			<-killed
			return errors.New("nobody is there any more")
		}
		return nil
	})
	shop := h.namespace("shop", 3)
	node.Pod(t, shop, "db", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "db"} })
	first := h.startWorker(shortLeaseFlags...)
	exec := func(words ...string) []berth.HookCommand {
		return []berth.HookCommand{{Exec: &berth.ExecHook{Command: words}}}
	}
	a := h.postSpec("a", berth.Spec{IncludedNamespaces: []string{shop}, Hooks: berth.Hooks{Resources: []berth.ResourceHook{{
		Name: "freeze", Pre: exec("fsfreeze", "-f"), Post: exec("fsfreeze", "-u"),
	}}}})
	select {
	case <-frozen:
	case <-t.Context().Done():
	}
	first.signal(syscall.SIGKILL)
	first.awaitEnd()
	close(killed)
	h.startWorker(shortLeaseFlags...)
	if done := h.awaitPhase(a, berth.PhaseCompleted); done.Attempt != 2 {
		t.Errorf("a was completed in attempt %d", done.Attempt)
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{"fsfreeze -f", "fsfreeze -u", "fsfreeze -f", "fsfreeze -u"}, ran); diff != "" {
		t.Errorf("what ran (-want +got):\n%s", diff)
	}
	await(t, "the Backup object counts the hooks", func() bool {
		object := h.object("a")
		if object == nil {
			return false
		}
		status, _ := object.Object["status"].(map[string]any)
		return fmt.Sprint(status["hookStatus"]) == "map[hooksAttempted:3]"
	})
	if n := h.count("SELECT count(*) FROM frozen_pods"); n != 0 {
		t.Errorf("%d pods are recorded as frozen", n)
	}
}

func (h *house) count(query string) (n int) {
	h.Helper()
	if err := h.connect().QueryRow(h.Context(), query).Scan(&n); err != nil {
		h.Fatal(err)
	}
	return n
}

// What is wrong with a resource policy is in the object and in the answer, all of
// it, and the backup never starts.
func TestAResourcePolicyThatIsWrongIsAFailedValidation(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	h.startWorker()
	shop := h.namespace("shop", 1)
	h.create(configMaps, h.velero, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "policy"},
		"data": map[string]any{"policy.yaml": "version: v2\nvolumePolicies: [{action: {type: snapshot}}]\n"},
	})
	a := h.postSpec("a", berth.Spec{IncludedNamespaces: []string{shop}, ResourcePolicy: &berth.ResourcePolicy{Kind: "configmap", Name: "policy"}})
	b := h.awaitPhase(a, berth.PhaseFailedValidation)
	if b.ValidationErrors == nil {
		t.Fatalf("the backup is %+v", b)
	}
	if len(*b.ValidationErrors) != 2 || b.StartedAt != nil || !slices.ContainsFunc(*b.ValidationErrors, func(s string) bool { return strings.Contains(s, "volumePolicies") }) {
		t.Errorf("the backup is %+v", b)
	}
	await(t, "the Backup object shows it", func() bool {
		object := h.object("a")
		if object == nil {
			return false
		}
		status, _ := object.Object["status"].(map[string]any)
		problems, _ := status["validationErrors"].([]any)
		return status["phase"] == "FailedValidation" && len(problems) == 2
	})
}

// The metrics show each running backup's pool, and never more workers than the
// limit times the count of each.
func TestMetricsShowThePools(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	one, two, three := h.namespace("one", 1), h.namespace("two", 1), h.namespace("three", 1)
	first, second := h.gate.hold(t, listOfConfigMaps(one)), h.gate.hold(t, listOfConfigMaps(two))
	worker := h.startWorker("--item-block-worker-count", "3", "--metrics-listen", "127.0.0.1:0")
	address := worker.awaitOutput(`msg="serving metrics" address=(\S+)`)
	ids := []uuid.UUID{h.post("one", one), h.post("two", two), h.post("three", three)}
	first.await()
	second.await()
	text := h.scrape(address)
	for _, name := range []string{"one", "two"} {
		if !strings.Contains(text, fmt.Sprintf(`berth_item_block_workers{attempt="1",backup=%q,cluster="default"} 3`, name)) {
			t.Errorf("no pool of backup %s in\n%s", name, text)
		}
	}
	if pools := regexp.MustCompile(`(?m)^berth_item_block_workers`).FindAllString(text, -1); len(pools) != 2 {
		t.Errorf("%d pools at a limit of 2", len(pools))
	}
	first.release()
	second.release()
	for _, id := range ids {
		h.awaitPhase(id, berth.PhaseCompleted)
	}
	await(t, "no pool is left", func() bool { return !strings.Contains(h.scrape(address), "berth_item_block") })
}

func (h *house) scrape(address string) string {
	h.Helper()
	answer, err := asker.Get("http://" + address + "/metrics")
	if err != nil {
		h.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK {
		h.Fatalf("GET /metrics: %s, %v", answer.Status, err)
	}
	return string(text)
}
