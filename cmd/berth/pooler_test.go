package main

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

// Through a pooler that shares connections by the transaction, nobody hears of
// anything: server and worker say so once, and polling alone takes every backup
// to its end.
func TestTheQueueWorksThroughAPooler(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.environment = append(h.environment, "BERTH_DATABASE_URL="+dbtest.Pooled(t, h.database.Direct))
	// Before the worker begins, so that it knows them.
	shop, blog := h.namespace("shop", 1), h.namespace("blog", 1)
	polling := []string{"--recheck-interval", "100ms"}
	processes := []*process{h.startServer(polling...), h.startWorker(polling...)}
	const deaf = "changes of the queue are not told"
	for _, p := range processes {
		p.awaitOutput(deaf)
	}
	// Two share a namespace, the third shares none.
	var ids []uuid.UUID
	for name, namespace := range map[string]string{"a": shop, "b": shop, "c": blog} {
		ids = append(ids, h.post(name, namespace))
	}
	for _, id := range ids {
		done := h.awaitPhase(id, berth.PhaseCompleted)
		if done.Attempt != 1 {
			t.Errorf("%s took %d attempts", done.Name, done.Attempt)
		}
		h.awaitMirror(id)
	}
	for _, p := range processes {
		if n := strings.Count(p.output.String(), deaf); n != 1 {
			t.Errorf("%s says %d times that nothing is told", p.name, n)
		}
	}
}
