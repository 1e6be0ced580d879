package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-backup/berth"
)

// Backups stand still in several phases; each object then equals the API's
// answer, in all that Velero's users see.
func TestBackupObjectsEqualTheAPIsAnswers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	shop := h.namespace("shop", 3)
	list := h.gate.hold(t, listOfConfigMaps(shop))
	watched := h.watchPhases()
	h.startWorker()

	running := h.post("running", shop)
	list.await()
	await(t, "progress shows while it runs", func() bool {
		p := h.get(running).Progress
		return p != nil && p.ItemsBackedUp > 0
	})
	next, last := h.post("next", shop), h.post("last", shop)
	partly, missing := h.post("partly", shop, "does-not-exist"), h.post("missing", "does-not-exist-either")
	h.awaitPhase(missing, berth.PhaseFailed)
	for position, id := range []uuid.UUID{next, last, partly} {
		h.awaitMirror(id)
		if b := h.get(id); b.Phase != berth.PhaseQueued || *b.Queue.Position != position+1 {
			t.Errorf("%s is %s: %+v", b.Name, b.Phase, b.Queue)
		}
	}
	h.awaitMirror(running)
	if status := h.object("running").Object["status"].(map[string]any); status["phase"] != "InProgress" || status["progress"] == nil {
		t.Errorf("the object of a running backup shows %v", status)
	}

	list.release()
	for _, id := range []uuid.UUID{running, next, last} {
		h.awaitPhase(id, berth.PhaseCompleted)
	}
	h.awaitPhase(partly, berth.PhasePartiallyFailed)
	for _, id := range []uuid.UUID{running, next, last, partly, missing} {
		h.awaitMirror(id)
		h.checkMetadata(id)
		phases := []string{}
		for _, e := range h.events(id) {
			phases = append(phases, string(e.ToPhase))
		}
		name := h.get(id).Name
		await(t, "the watch has seen the end of "+name, func() bool {
			seen := watched.of(name)
			return len(seen) > 0 && seen[len(seen)-1] == phases[len(phases)-1]
		})
		if seen := watched.of(name); !isSubsequence(seen, phases) {
			t.Errorf("the object of %s showed %v, the row went through %v", name, seen, phases)
		}
	}
}

// checkMetadata compares what an object is made with.
func (h *house) checkMetadata(id uuid.UUID) {
	h.Helper()
	b := h.get(id)
	object := h.object(b.Name)
	labels := maps.Clone(b.Labels)
	labels[berth.LabelStorageLocation] = berth.DefaultStorageLocation
	annotations := maps.Clone(b.Annotations)
	annotations[berth.AnnotationID], annotations[berth.AnnotationVersion] = b.ID.String(), fmt.Sprint(b.Version)
	if diff := cmp.Diff(labels, object.GetLabels()); diff != "" {
		h.Errorf("labels of %s (-API +object):\n%s", b.Name, diff)
	}
	if diff := cmp.Diff(annotations, object.GetAnnotations()); diff != "" {
		h.Errorf("annotations of %s (-API +object):\n%s", b.Name, diff)
	}
	included, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "includedNamespaces")
	if diff := cmp.Diff(b.Spec.IncludedNamespaces, included); diff != "" {
		h.Errorf("spec of %s (-API +object):\n%s", b.Name, diff)
	}
}

// phases are those that Backup objects were seen in, without repetitions.
type phases struct {
	mu   sync.Mutex
	seen map[string][]string
}

func (p *phases) of(name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen[name])
}

func (h *house) watchPhases() *phases {
	h.Helper()
	p := &phases{seen: map[string][]string{}}
	watcher, err := h.objects.Resource(backupObjects).Namespace(h.velero).Watch(h.Context(), metav1.ListOptions{})
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(watcher.Stop)
	go func() {
		for event := range watcher.ResultChan() {
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
			p.mu.Lock()
			if seen := p.seen[object.GetName()]; len(seen) == 0 || seen[len(seen)-1] != phase {
				p.seen[object.GetName()] = append(seen, phase)
			}
			p.mu.Unlock()
		}
	}()
	return p
}

func isSubsequence(part, whole []string) bool {
	for _, w := range whole {
		if len(part) > 0 && part[0] == w {
			part = part[1:]
		}
	}
	return len(part) == 0
}
