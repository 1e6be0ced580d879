package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/worker"
)

// never is an interval in which no poll happens.
const never = 1000 * time.Hour

func TestNothingIsDequeuedBeforeTheNamespacesAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		ready := make(chan struct{})
		w := start(t, q, taking(q, time.Second), worker.Config{Ready: ready, Recheck: time.Second})
		w.Kick()
		time.Sleep(10 * time.Minute)
		if len(q.of("Dispatch")) > 0 {
			t.Error("dequeued before it was ready")
		}
		if len(q.of("Renew")) > 0 {
			t.Error("a worker that takes nothing says that it is there for those that wait")
		}
		close(ready)
		synctest.Wait()
		if len(q.of("Renew")) == 0 {
			t.Error("a worker that is ready does not say that it lives")
		}
		if len(q.of("Start")) != 1 {
			t.Error("nothing starts at once when it is ready")
		}
	})
}

// What a worker runs, nobody may see running while others wait for a worker.
func TestAWorkerIsKnownBeforeItTakesAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(_ context.Context, c call) error {
			if c.name == "Renew" && c.at < time.Minute {
				return errAway
			}
			return nil
		}
		start(t, q, taking(q, time.Second), worker.Config{Recheck: time.Second, Lease: lease})
		time.Sleep(time.Minute - time.Millisecond)
		if tried := len(q.of("Renew")); tried < 2 {
			t.Errorf("said %d times that it is there, without an answer", tried)
		}
		if len(q.of("Dispatch")) > 0 {
			t.Error("dequeued before the queue knew of the worker")
		}
		time.Sleep(lease.Renew)
		if len(q.of("Start")) != 1 {
			t.Error("nothing starts when the queue knows of the worker")
		}
	})
}

func TestAWorkerTakesAsManyAsItHasRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("a", "b", "c", "d", "e")
		start(t, q, taking(q, time.Minute), worker.Config{MaxBackups: 2, Recheck: never, Lease: lease})
		time.Sleep(time.Second)
		if n := len(q.of("Start")); n != 2 {
			t.Fatalf("%d backups run, room is for 2", n)
		}
		// Each end makes room, which is used at once.
		time.Sleep(time.Minute)
		if n := len(q.of("Start")); n != 4 {
			t.Errorf("%d backups have started after the first two ended", n)
		}
		time.Sleep(time.Hour)
		if n := len(q.of("Finish")); n != 5 {
			t.Errorf("%d backups have ended", n)
		}
		for _, d := range q.of("Dispatch") {
			if d.want > 2 {
				t.Errorf("asked for %d at %s", d.want, d.at)
			}
		}
	})
}

// A worker that is full still asks, for nothing: waiting backups learn what
// they wait for.
func TestAFullWorkerStillMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("a", "b")
		start(t, q, taking(q, time.Hour), worker.Config{MaxBackups: 1, Recheck: time.Second, Lease: lease})
		time.Sleep(time.Minute)
		asked := q.of("Dispatch")
		if len(asked) < 40 || asked[len(asked)-1].want != 0 {
			t.Errorf("%d dequeues, the last for %d", len(asked), asked[len(asked)-1].want)
		}
	})
}

func TestWithoutAMaximumTheClustersLimitCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		start(t, q, taking(q, time.Hour), worker.Config{})
		synctest.Wait()
		if want := q.of("Dispatch")[0].want; want < 10000 {
			t.Errorf("asks for %d", want)
		}
	})
}

func TestAHintIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		w := start(t, q, taking(q, time.Second), worker.Config{Recheck: never})
		synctest.Wait()
		q.put("nightly")
		w.Kick()
		synctest.Wait()
		if len(q.of("Start")) != 1 {
			t.Error("a hint did not start what waits")
		}
	})
}

func TestHintsDuringADequeueMakeOneMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		dequeue := make(chan struct{})
		q.hook = func(_ context.Context, c call) error {
			if c.name == "Dispatch" {
				<-dequeue
			}
			return nil
		}
		w := start(t, q, taking(q, time.Second), worker.Config{Recheck: never})
		synctest.Wait()
		for range 100 {
			w.Kick() // it never blocks
		}
		close(dequeue)
		synctest.Wait()
		if n := len(q.of("Dispatch")); n != 2 {
			t.Errorf("%d dequeues", n)
		}
	})
}

func TestWithoutHintsTheQueueIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		start(t, q, taking(q, time.Second), worker.Config{})
		time.Sleep(10 * time.Minute)
		polls := q.of("Dispatch")
		gaps := map[time.Duration]bool{}
		for i, p := range polls[1:] {
			gap := p.at - polls[i].at
			gaps[gap] = true
			if gap < 2*time.Second || gap > 2400*time.Millisecond {
				t.Fatalf("polled at %s and at %s", polls[i].at, p.at)
			}
		}
		if len(gaps) < 10 {
			t.Error("the polls have no jitter")
		}
	})
}

func TestADequeueThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(_ context.Context, c call) error {
			switch {
			case c.at > time.Minute:
				return nil
			case c.name == "Dispatch" && c.at > 30*time.Second:
				return errors.New("no such table")
			case c.name == "Dispatch":
				return errAway
			}
			return nil
		}
		start(t, q, taking(q, time.Second), worker.Config{})
		time.Sleep(2 * time.Minute)
		if n := len(q.of("Finish")); n != 1 {
			t.Errorf("%d backups have ended", n)
		}
	})
}

func TestWhatWasAdmittedBeforeAnErrorIsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(_ context.Context, c call) error {
			if c.name == "Dispatch" && c.at == 0 {
				return errHalf
			}
			return nil
		}
		start(t, q, taking(q, time.Second), worker.Config{Recheck: never})
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"Start", "Finalize", "Publish", "Finish", "Close"}, sortCloseLast(q.life(1))); diff != "" {
			t.Errorf("the calls of the run (-want +got):\n%s", diff)
		}
	})
}

// What a dequeue admits and nobody takes would cost an attempt.
func TestTheEndOfTheWorkerDoesNotInterruptADequeue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(ctx context.Context, c call) error {
			if c.name != "Dispatch" {
				return nil
			}
			select {
			case <-time.After(5 * time.Second): // it waits for the gate
				return nil
			case <-ctx.Done():
				return errors.Join(errHalf, ctx.Err())
			}
		}
		w := start(t, q, taking(q, time.Second), worker.Config{ShutdownGrace: time.Minute})
		time.Sleep(time.Second)
		w.stop()
		<-w.ended
		if diff := cmp.Diff([]string{"Start", "Finalize", "Publish", "Finish", "Close"}, sortCloseLast(q.life(1))); diff != "" {
			t.Errorf("the calls of the run (-want +got):\n%s", diff)
		}
		if n := len(q.of("Dispatch")); n != 1 {
			t.Errorf("%d dequeues", n)
		}
	})
}

func TestADequeueThatHangsEndsWithWhatItCouldAdmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.hook = func(ctx context.Context, c call) error {
			if c.name == "Dispatch" && c.at == 0 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		start(t, q, taking(q, time.Second), worker.Config{Lease: lease})
		time.Sleep(2 * time.Minute)
		if second := q.of("Dispatch")[1].at; second < trusted || second > trusted+3*time.Second {
			t.Errorf("the next dequeue came at %s", second)
		}
	})
}

func TestABackupOfALostMomentStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(_ context.Context, c call) error {
			if c.name == "Dispatch" {
				time.Sleep(trusted) // the process was stopped
			}
			return nil
		}
		engine := engineFunc(func(context.Context, berth.Run, worker.Report) (worker.Taken, error) {
			t.Error("a run began whose lease could not be trusted")
			return nil, errors.New("not to be taken")
		})
		start(t, q, engine, worker.Config{Lease: lease, Recheck: never})
		time.Sleep(5 * time.Minute)
		if len(q.of("Finish", "Release")) > 0 {
			t.Error("it was ended")
		}
	})
}
