package main

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
)

// A namespace that was made a moment before its backup was asked for is in it, though
// the worker's inventory is moments behind the cluster.
func TestANamespaceMadeAMomentAgoIsInItsBackup(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	h.startWorker("--concurrent-backups", "4").workerID()
	for i := range 10 {
		name := h.namespace("fresh", 0)
		done := h.awaitPhase(h.post(fmt.Sprint("fresh-", i), name), berth.PhaseCompleted)
		if diff := cmp.Diff([][]string{{name}, {}}, [][]string{*done.Namespaces.Frozen, *done.Namespaces.Missing}); diff != "" {
			t.Errorf("the contents and what is missing (-want +got):\n%s", diff)
		}
	}
}
