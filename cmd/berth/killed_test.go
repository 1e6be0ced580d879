package main

import (
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
)

// A worker is killed in the middle of a run, while another backup of the same
// namespace waits.
func TestAKilledWorkersBackupCompletesOnAnother(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	shop := h.namespace("shop", 3)
	list := h.gate.hold(t, listOfConfigMaps(shop))
	first := h.startWorker(shortLeaseFlags...)
	a := h.post("a", shop)
	list.await()
	b := h.post("b", shop)
	second := h.startWorker(shortLeaseFlags...)
	secondID := second.workerID()
	await(t, "b waits for a", func() bool {
		q := h.get(b).Queue
		return q != nil && q.BlockedBy[0].Reason == berth.WaitRunningOverlap && q.BlockedBy[0].Backup.ID == a
	})
	first.signal(syscall.SIGKILL)

	done := h.awaitPhase(a, berth.PhaseCompleted)
	if done.Attempt != 2 || value(done.Worker) != secondID {
		t.Errorf("a was completed by worker %s in attempt %d, want %s in 2", value(done.Worker), done.Attempt, secondID)
	}
	events := h.events(a)
	want := []string{"Queued", "ReadyToStart 1", "InProgress", "Queued LeaseLost", "ReadyToStart 2", "InProgress", "Finalizing", "Completed"}
	if diff := cmp.Diff(want, lives(events)); diff != "" {
		t.Errorf("the life of a (-want +got):\n%s", diff)
	}
	h.checkArchive("a", 2, at(events, berth.PhaseReadyToStart).Fence)

	h.awaitPhase(b, berth.PhaseCompleted)
	ended, started := at(events, berth.PhaseCompleted).At, at(h.events(b), berth.PhaseReadyToStart).At
	if !started.After(ended) {
		t.Errorf("b started at %s, a ended at %s", started, ended)
	}
	h.awaitMirror(a)
	h.awaitMirror(b)
}
