package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth/worker"
)

func TestAnIdleWorkerEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		w := start(t, q, taking(q, time.Second), worker.Config{ShutdownGrace: time.Hour})
		time.Sleep(time.Second)
		w.stop()
		synctest.Wait()
		if !w.hasEnded() || w.err != nil {
			t.Fatalf("ended %v: %v", w.hasEnded(), w.err)
		}
		if last := q.calls[len(q.calls)-1].name; last != "Retire" {
			t.Errorf("the last word is %s", last)
		}
	})
}

func TestAWorkerThatIsNotReadyEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		w := start(t, q, taking(q, time.Second), worker.Config{Ready: make(chan struct{})})
		time.Sleep(time.Second)
		w.stop()
		synctest.Wait()
		if !w.hasEnded() || w.err != nil {
			t.Errorf("ended %v: %v", w.hasEnded(), w.err)
		}
	})
}

func TestARunThatEndsWithinTheGraceCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("a")
		w := start(t, q, taking(q, 4*time.Minute), worker.Config{ShutdownGrace: 5 * time.Minute, Lease: lease, MaxBackups: 1})
		time.Sleep(time.Second)
		q.put("b")
		w.stop()
		w.Kick()
		<-w.ended
		if w.err != nil {
			t.Error(w.err)
		}
		if diff := cmp.Diff([]string{"Start", "Finalize", "Publish", "Finish", "Close"}, sortCloseLast(q.life(1))); diff != "" {
			t.Errorf("the calls of the run (-want +got):\n%s", diff)
		}
		if n := len(q.of("Start")); n != 1 {
			t.Errorf("%d backups were started", n)
		}
		// What it says of itself: room for one, and from the signal on for nothing more.
		for _, said := range q.of("Renew") {
			want := 1
			if said.at >= time.Second {
				want = 0
			}
			if said.maxBackups == nil || *said.maxBackups != want {
				t.Errorf("at %s it said that it runs %v backups at most, want %d", said.at, said.maxBackups, want)
			}
		}
		if at := q.of("Renew")[1].at; at != time.Second {
			t.Errorf("it said at %s that it takes nothing more, the signal came after 1s", at)
		}
		if ended := q.of("Retire")[0].at; ended != 4*time.Minute {
			t.Errorf("the worker went on until %s", ended)
		}
	})
}

func TestARunThatOutlivesTheGraceGoesBack(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Second, time.Minute} {
		t.Run(grace.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				q.put("a", "b")
				engine := &witness{queue: q}
				w := start(t, q, engine, worker.Config{ShutdownGrace: grace, Lease: lease})
				time.Sleep(time.Second)
				w.stop()
				<-w.ended
				if w.err != nil {
					t.Error(w.err)
				}
				for _, fence := range []int64{1, 2} {
					if diff := cmp.Diff([]string{"Start", "Release"}, q.life(fence)); diff != "" {
						t.Errorf("the calls of run %d (-want +got):\n%s", fence, diff)
					}
				}
				if at, _ := engine.last(); at != time.Second+grace {
					t.Errorf("the run was stopped at %s", at)
				}
				if last := q.calls[len(q.calls)-1].name; last != "Retire" {
					t.Errorf("the last word is %s", last)
				}
			})
		})
	}
}

// The grace may end while the row's end is being written.
func TestARunThatCannotWriteItsEndGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(_ context.Context, c call) error {
			if c.name == "Finish" {
				return errAway
			}
			return nil
		}
		w := start(t, q, taking(q, time.Second), worker.Config{ShutdownGrace: 10 * time.Second, Lease: lease})
		time.Sleep(2 * time.Second)
		w.stop()
		<-w.ended
		if life := q.life(1); life[len(life)-1] != "Release" {
			t.Errorf("the calls of the run: %q", life)
		}
	})
}

func TestGivingBackIsTriedWhileTheLeaseLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(_ context.Context, c call) error {
			if c.name == "Release" && c.at < 5*time.Second {
				return errAway
			}
			return nil
		}
		w := start(t, q, &witness{queue: q}, worker.Config{Lease: lease})
		time.Sleep(time.Second)
		w.stop()
		<-w.ended
		releases := q.of("Release")
		if n := len(releases); n < 2 || releases[n-1].at < 5*time.Second {
			t.Errorf("%+v", releases)
		}
	})
}

// With the database away for good the worker ends all the same: its leases run
// out.
func TestAWorkerEndsWithoutItsDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(_ context.Context, c call) error {
			if c.at > time.Second {
				return errAway
			}
			return nil
		}
		w := start(t, q, &witness{queue: q}, worker.Config{Lease: lease, ShutdownGrace: time.Second})
		time.Sleep(2 * time.Second)
		w.stop()
		<-w.ended
		if took := time.Since(q.began); took > 30*time.Second {
			t.Errorf("it took %s", took)
		}
		if !errors.Is(w.err, errAway) {
			t.Errorf("Run returned %v", w.err)
		}
	})
}

func TestARunThatLostItsLeaseInTheGraceIsNotGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(_ context.Context, c call) error {
			if c.name == "Renew" && c.at > 0 {
				q.lose(1)
			}
			return nil
		}
		w := start(t, q, &witness{queue: q}, worker.Config{Lease: lease, ShutdownGrace: time.Minute})
		time.Sleep(time.Second)
		w.stop()
		<-w.ended
		if diff := cmp.Diff([]string{"Start"}, q.life(1)); diff != "" {
			t.Errorf("the calls of the run (-want +got):\n%s", diff)
		}
	})
}
