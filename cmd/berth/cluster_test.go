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
	await(t, "the worker says that it lives", func() bool {
		return h.get(a).Queue.BlockedBy[0].Reason == berth.WaitDispatch
	})
	worker.awaitOutput("waiting for the cluster's namespaces")
	worker.awaitOutput("(?s)namespaces cannot be read.*namespaces cannot be read")
	if b := h.get(a); b.Phase != berth.PhaseQueued {
		t.Errorf("a is %s before the cluster is known", b.Phase)
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
