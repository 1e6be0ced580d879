package main

import (
	"syscall"
	"testing"

	"github.com/berth-backup/berth"
)

func TestAWorkerWaitsForItsCluster(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	shop := h.namespace("shop", 1)
	link, url := newLink(t, h.gate.url)
	link.cut()
	h.gate.kubeconfig = kubeconfigOf(t, url)
	worker := h.startWorker("--recheck-interval", "100ms")
	worker.workerID()
	a := h.post("a", shop)
	worker.awaitOutput("waiting for the cluster's namespaces")
	worker.awaitOutput("(?s)namespaces cannot be read.*namespaces cannot be read")
	// It is no worker that a waits for the dequeue of.
	if b := h.get(a); b.Phase != berth.PhaseQueued || b.Queue.BlockedBy[0].Reason != berth.WaitNoWorker {
		t.Errorf("before the cluster is known a is %s and waits for %+v", b.Phase, b.Queue)
	}
	link.mend()
	if done := h.awaitPhase(a, berth.PhaseCompleted); done.Attempt != 1 {
		t.Errorf("a took %d attempts", done.Attempt)
	}
	h.awaitMirror(a)
}

func TestAWorkerWithoutItsClusterEndsInOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.gate.kubeconfig = kubeconfigOf(t, nowhere)
	worker := h.startWorker()
	worker.workerID()
	worker.signal(syscall.SIGTERM)
	if code := worker.awaitEnd(); code != 0 {
		t.Errorf("the worker ended with %d", code)
	}
}
