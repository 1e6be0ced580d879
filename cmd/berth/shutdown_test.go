package main

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
)

func TestAWorkerGivesBackWhatOutlivesTheGrace(t *testing.T) {
	for _, grace := range []string{"0s", "1s"} {
		t.Run(grace, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.startServer()
			shop := h.namespace("shop", 1)
			list := h.gate.hold(t, listOfConfigMaps(shop))
			first := h.startWorker("--shutdown-grace", grace)
			a := h.post("a", shop)
			list.await()
			second := h.startWorker()
			secondID := second.workerID()
			first.signal(syscall.SIGTERM)
			if code := first.awaitEnd(); code != 0 {
				t.Errorf("the worker ended with %d", code)
			}
			done := h.awaitPhase(a, berth.PhaseCompleted)
			if done.Attempt != 1 || value(done.Worker) != secondID {
				t.Errorf("a was completed by worker %s in attempt %d, want %s in 1", value(done.Worker), done.Attempt, secondID)
			}
			events := h.events(a)
			want := []string{"Queued", "ReadyToStart 1", "InProgress", "Queued Released", "ReadyToStart 1", "InProgress", "Finalizing", "Completed"}
			if diff := cmp.Diff(want, lives(events)); diff != "" {
				t.Errorf("the life of a (-want +got):\n%s", diff)
			}
			h.checkArchive("a", 1, at(events, berth.PhaseReadyToStart).Fence)
		})
	}
}

func TestAWorkerFinishesWhatEndsWithinTheGraceAndTakesNothingNew(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	shop, other := h.namespace("shop", 1), h.namespace("other", 1)
	list := h.gate.hold(t, listOfConfigMaps(shop))
	worker := h.startWorker()
	a := h.post("a", shop)
	list.await()
	worker.signal(syscall.SIGTERM)
	worker.awaitOutput("shutting down")
	b := h.post("b", other)
	list.release()
	if code := worker.awaitEnd(); code != 0 {
		t.Errorf("the worker ended with %d", code)
	}
	if done := h.get(a); done.Phase != berth.PhaseCompleted || done.Attempt != 1 {
		t.Errorf("a is %s in attempt %d", done.Phase, done.Attempt)
	}
	waiting := h.get(b)
	if waiting.Phase != berth.PhaseQueued || waiting.Queue.BlockedBy[0].Reason != berth.WaitNoWorker {
		t.Errorf("b is %s for %+v", waiting.Phase, waiting.Queue)
	}
}

func TestASecondSignalEndsAWorkerAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	shop := h.namespace("shop", 1)
	list := h.gate.hold(t, listOfConfigMaps(shop))
	worker := h.startWorker()
	h.post("a", shop)
	list.await()
	worker.signal(syscall.SIGTERM)
	worker.awaitOutput("shutting down")
	await(t, "the worker ends", func() bool {
		worker.signal(syscall.SIGTERM)
		select {
		case <-worker.done:
			return true
		default:
			return false
		}
	})
	if state := worker.cmd.ProcessState.Sys().(syscall.WaitStatus); state.Signal() != syscall.SIGTERM {
		t.Errorf("the worker ended as %v", worker.cmd.ProcessState)
	}
}

func TestAServerEndsInOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	server := h.startServer()
	if answer, err := http.Get(h.url + "/readyz"); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("/readyz: %v, %v", answer, err)
	}
	began := time.Now()
	server.signal(syscall.SIGTERM)
	if code := server.awaitEnd(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if answer, err := http.Get(h.url + "/livez"); err == nil {
		t.Errorf("it still answers %s", answer.Status)
	}
}
