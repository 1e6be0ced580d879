package main

import (
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api/client"
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
	await(t, "it is no worker that anybody waits for", func() bool {
		return h.get(b).Queue.BlockedBy[0].Reason == berth.WaitNoWorker
	})
	if phase := h.get(a).Phase; phase != berth.PhaseInProgress {
		t.Errorf("a is %s meanwhile", phase)
	}
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

func TestAFullWorkerIsNamed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	shop, other := h.namespace("shop", 1), h.namespace("other", 1)
	list := h.gate.hold(t, listOfConfigMaps(shop))
	h.startWorker("--concurrent-backups", "2", "--max-backups", "1")
	h.post("a", shop)
	list.await()
	b := h.post("b", other)
	if got := h.get(b).Queue.BlockedBy[0]; got.Reason != berth.WaitNoFreeSlot || value(got.Setting) != "maxBackups=1" {
		t.Errorf("b waits for %+v", got)
	}
	list.release()
	h.awaitPhase(b, berth.PhaseCompleted)
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

func TestAServerAnswersWhatItHasTakenAndEnds(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	server := h.startServer()
	// Seen from a connection of its own: within a transaction pg_stat_activity
	// stands still.
	sessions := h.connect()
	lock, err := h.connect().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), "lock table backups in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		answer, err := h.api.CreateBackupWithResponse(t.Context(), nil, client.BackupRequest{})
		if err != nil {
			answered <- err.Error()
			return
		}
		answered <- answer.HTTPResponse.Status
	}()
	await(t, "the request waits for the table", func() bool {
		var waits bool
		// The server's loops wait for it as well.
		err := sessions.QueryRow(t.Context(), `select exists (select from pg_stat_activity where datname = current_database()
			and wait_event_type = 'Lock' and query like '%INSERT INTO backups (%')`).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		return waits
	})
	server.signal(syscall.SIGTERM)
	server.awaitOutput("shutting down")
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; got != "201 Created" {
		t.Errorf("the request was answered %s", got)
	}
	if code := server.awaitEnd(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	if _, err := h.api.GetLivezWithResponse(t.Context()); err == nil {
		t.Error("it still answers")
	}
}
