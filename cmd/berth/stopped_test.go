package main

import (
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
)

// A worker sleeps for longer than its lease in the middle of a run and wakes
// up when the next attempt has completed.
func TestAStoppedWorkerWritesNothingWhenItWakes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	shop := h.namespace("shop", 3)
	list := h.gate.hold(t, listOfConfigMaps(shop))
	first := h.startWorker(shortLeaseFlags...)
	a := h.post("a", shop)
	list.await()
	first.signal(syscall.SIGSTOP)
	second := h.startWorker(shortLeaseFlags...)
	secondID := second.workerID()
	stands := h.awaitPhase(a, berth.PhaseCompleted)
	if stands.Attempt != 2 || value(stands.Worker) != secondID {
		t.Errorf("a was completed by worker %s in attempt %d, want %s in 2", value(stands.Worker), stands.Attempt, secondID)
	}
	files := h.artefacts("a")
	h.checkArchive("a", 2, at(h.events(a), berth.PhaseReadyToStart).Fence)

	list.release()
	first.signal(syscall.SIGCONT)
	first.awaitOutput("its lease is lost")
	if diff := cmp.Diff(stands, h.get(a)); diff != "" {
		t.Errorf("the row has changed (-before +after):\n%s", diff)
	}
	if !cmp.Equal(files, h.artefacts("a")) {
		t.Error("the archive has changed")
	}

	// It is a worker like any other again.
	second.signal(syscall.SIGTERM)
	second.awaitEnd()
	b := h.post("b", shop)
	if done := h.awaitPhase(b, berth.PhaseCompleted); value(done.Worker) != first.workerID() {
		t.Errorf("b was completed by %s", value(done.Worker))
	}
	h.awaitMirror(a)
	h.awaitMirror(b)
}
