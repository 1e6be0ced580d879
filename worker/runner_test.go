package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/worker"
)

func TestABackupGoesThroughItsPhasesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		start(t, q, taking(q, 500*time.Millisecond), worker.Config{})
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"Start", "Finalize", "Publish", "Finish", "Close"}, sortCloseLast(q.life(1))); diff != "" {
			t.Errorf("the calls of a run (-want +got):\n%s", diff)
		}
		final := q.of("Publish")[0].final
		if final.Phase != berth.PhaseCompleted || final.StartedAt == nil || final.CompletedAt.Sub(*final.StartedAt) != 500*time.Millisecond ||
			final.Labels["name"] != "nightly" || final.Progress.ItemsBackedUp != 9 || final.Attempt != 1 {
			t.Errorf("velero-backup.json is to show %+v", final)
		}
		if got := q.of("Finish")[0].outcome; !cmp.Equal(got, completed) {
			t.Errorf("Finish was told %+v", got)
		}
	})
}

// judge is an engine that finds something against every backup.
type judge struct {
	engineFunc
	problems []string
}

func (j judge) Validate(context.Context, berth.Run) ([]string, error) { return j.problems, nil }

// What the cluster says against a backup ends it before it starts.
func TestABackupThatTheClusterRefusesDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		start(t, q, judge{taking(q, time.Second), []string{"no policy", "no more"}}, worker.Config{})
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"Finish"}, q.life(1)); diff != "" {
			t.Errorf("the calls of a run (-want +got):\n%s", diff)
		}
		want := berth.Outcome{Phase: berth.PhaseFailedValidation, Message: "no policy", ValidationErrors: []string{"no policy", "no more"}}
		if diff := cmp.Diff(want, q.of("Finish")[0].outcome); diff != "" {
			t.Errorf("the outcome (-want +got):\n%s", diff)
		}
	})
}

// sortCloseLast puts Close last: whether the store is let go of before or after
// the row is written makes no difference.
func sortCloseLast(names []string) []string {
	var others, closes []string
	for _, name := range names {
		if name == "Close" {
			closes = append(closes, name)
		} else {
			others = append(others, name)
		}
	}
	return append(others, closes...)
}

func TestProgressIsWrittenAtMostOnceASecondAndNotTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		engine := engineFunc(func(_ context.Context, run berth.Run, report worker.Report) (worker.Taken, error) {
			for n := range 350 {
				time.Sleep(10 * time.Millisecond)
				report.Progress(berth.Progress{ItemsBackedUp: n, TotalItems: 350})
			}
			time.Sleep(5 * time.Second) // in which nothing new is told
			return fakeTaken{queue: q, fence: run.Fence, outcome: completed}, nil
		})
		start(t, q, engine, worker.Config{})
		time.Sleep(time.Minute)
		written := q.of("Progress")
		if len(written) != 4 {
			t.Fatalf("progress was written %d times in 3.5 s of changes: %+v", len(written), written)
		}
		for i, w := range written {
			if i > 0 && w.at-written[i-1].at < time.Second {
				t.Errorf("written at %s and at %s", written[i-1].at, w.at)
			}
		}
		if last := written[len(written)-1].progress.ItemsBackedUp; last != 349 {
			t.Errorf("the last value written in the run is %d, the engine's last was 349", last)
		}
		if got := q.of("Finalize")[0].outcome.Progress; got != completed.Progress {
			t.Errorf("the final progress is %+v", got)
		}
	})
}

func TestProgressThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(_ context.Context, c call) error {
			if c.name == "Progress" && c.at < 3*time.Second {
				return errAway
			}
			return nil
		}
		engine := engineFunc(func(_ context.Context, run berth.Run, report worker.Report) (worker.Taken, error) {
			report.Progress(berth.Progress{ItemsBackedUp: 1})
			time.Sleep(10 * time.Second)
			return fakeTaken{queue: q, fence: run.Fence, outcome: completed}, nil
		})
		start(t, q, engine, worker.Config{})
		time.Sleep(time.Minute)
		if n := len(q.of("Progress")); n != 3 { // at 1 s and 2 s in vain, at 3 s
			t.Errorf("progress was tried %d times", n)
		}
		if n := len(q.of("Finish")); n != 1 {
			t.Errorf("Finish was called %d times", n)
		}
	})
}

// verdictError is an engine's error with a verdict.
type verdictError struct{ outcome berth.Outcome }

func (e verdictError) Error() string          { return "a verdict" }
func (e verdictError) Outcome() berth.Outcome { return e.outcome }

// reasonedError is an engine's error of circumstances that it has a word for.
type reasonedError struct{ error }

func (reasonedError) Reason() string { return "StorageLost" }

// A verdict ends the backup, any other error the attempt.
func TestAnErrorEndsTheBackupOrTheAttempt(t *testing.T) {
	refused := berth.Outcome{Phase: berth.PhaseFailedValidation, Reason: "InvalidSpec", ValidationErrors: []string{"a", "b"}}
	storeAway := errors.New("the store is away")
	lost := func(message string) berth.Outcome { return berth.Outcome{Reason: "AttemptFailed", Message: message} }
	for name, test := range map[string]struct {
		take, publish error
		want          berth.Outcome
	}{
		"a verdict":              {take: verdictError{refused}, want: refused},
		"a verdict, wrapped":     {take: fmt.Errorf("take: %w", verdictError{refused}), want: refused},
		"circumstances":          {take: storeAway, want: lost("the store is away")},
		"with a reason":          {take: fmt.Errorf("take: %w", reasonedError{storeAway}), want: berth.Outcome{Reason: "StorageLost", Message: "take: the store is away"}},
		"while it is published":  {publish: storeAway, want: lost("publish: the store is away")},
		"the engine's own limit": {take: context.DeadlineExceeded, want: lost("context deadline exceeded")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				q.put("nightly")
				q.hook = func(_ context.Context, c call) error {
					if c.name == "Publish" {
						return test.publish
					}
					return nil
				}
				start(t, q, engineFunc(func(_ context.Context, run berth.Run, _ worker.Report) (worker.Taken, error) {
					if test.take != nil {
						return nil, test.take
					}
					return fakeTaken{queue: q, fence: run.Fence, outcome: completed}, nil
				}), worker.Config{})
				time.Sleep(time.Minute)
				ends := q.of("Finish", "Release", "GiveUp")
				if len(ends) != 1 {
					t.Fatalf("the run was ended by %+v", ends)
				}
				if diff := cmp.Diff(test.want, ends[0].outcome); diff != "" {
					t.Errorf("the outcome (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Every write of a run is tried until the database is back.
func TestARunOutlastsARestartOfTheDatabase(t *testing.T) {
	for _, during := range []string{"Start", "Take", "Finalize", "Finish"} {
		t.Run(during, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const outage = 30 * time.Second
				q := newQueue()
				q.put("nightly")
				var mu sync.Mutex
				var begun time.Time
				away := func(name string) error {
					mu.Lock()
					defer mu.Unlock()
					if name == during && begun.IsZero() {
						begun = time.Now()
					}
					if !begun.IsZero() && time.Since(begun) < outage {
						return errAway
					}
					return nil
				}
				q.hook = func(_ context.Context, c call) error { return away(c.name) }
				start(t, q, engineFunc(func(_ context.Context, run berth.Run, _ worker.Report) (worker.Taken, error) {
					if err := away("Take"); err != nil {
						return nil, fmt.Errorf("find the storage location: %w", err)
					}
					return fakeTaken{queue: q, fence: run.Fence, outcome: completed}, nil
				}), worker.Config{})
				time.Sleep(outage + 5*time.Second)
				ends := q.of("Finish", "Release")
				if len(ends) == 0 || ends[len(ends)-1].outcome.Phase != berth.PhaseCompleted {
					t.Fatalf("the run was ended by %+v", ends)
				}
				for _, end := range ends[:len(ends)-1] {
					if end.at > outage {
						t.Errorf("ended again after %s", end.at)
					}
				}
				if got := ends[len(ends)-1].at; got > outage+3*time.Second {
					t.Errorf("ended %s after the database was back", got-outage)
				}
				if tries := len(q.of(during)); during != "Take" && tries > 40 {
					t.Errorf("%s was tried %d times in %s", during, tries, outage)
				}
			})
		})
	}
}

func TestAWriteThatHangsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(ctx context.Context, c call) error {
			if c.name == "Start" && c.at < time.Second {
				<-ctx.Done() // a connection that died in silence
				return fmt.Errorf("%w: %w", errAway, ctx.Err())
			}
			return nil
		}
		start(t, q, taking(q, time.Second), worker.Config{})
		time.Sleep(30 * time.Second)
		if diff := cmp.Diff([]string{"Start", "Start", "Finalize", "Publish", "Finish", "Close"}, sortCloseLast(q.life(1))); diff != "" {
			t.Errorf("the calls of the run (-want +got):\n%s", diff)
		}
	})
}

func TestARowThatRefusesItsEndIsLeftToTheReaper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(_ context.Context, c call) error {
			if c.name == "Finish" {
				return errors.New("a constraint refuses it")
			}
			return nil
		}
		start(t, q, taking(q, time.Second), worker.Config{})
		time.Sleep(5 * time.Minute)
		if n := len(q.of("Finish")); n != 1 {
			t.Errorf("Finish was called %d times", n)
		}
		renewals := q.of("Renew")
		if last := renewals[len(renewals)-1]; last.leases != 0 {
			t.Errorf("its lease is still renewed, at %s", last.at)
		}
	})
}

func TestAPanicEndsItsBackupAlone(t *testing.T) {
	for _, where := range []string{"Take", "Publish"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				q.put("a", "b")
				q.hook = func(_ context.Context, c call) error {
					if c.name == "Publish" && c.fence == 1 && where == "Publish" {
						panic("a fault")
					}
					return nil
				}
				start(t, q, engineFunc(func(_ context.Context, run berth.Run, _ worker.Report) (worker.Taken, error) {
					if run.Fence == 1 && where == "Take" {
						panic("a fault")
					}
					return fakeTaken{queue: q, fence: run.Fence, outcome: completed}, nil
				}), worker.Config{})
				time.Sleep(time.Minute)
				ends := map[int64]berth.Outcome{}
				for _, c := range q.of("Finish") {
					ends[c.fence] = c.outcome
				}
				if got := ends[1]; got.Phase != berth.PhaseFailed || got.FailureReason != "panic: a fault" {
					t.Errorf("the first ended as %+v", got)
				}
				if got := ends[2]; got.Phase != berth.PhaseCompleted {
					t.Errorf("the one beside it ended as %+v", got)
				}
			})
		})
	}
}
