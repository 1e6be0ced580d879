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

// lease is that of the design: a worker stops 50 s after it last asked for it.
var lease = worker.Lease{TTL: 60 * time.Second, Renew: 20 * time.Second, Margin: 10 * time.Second}

const trusted = 50 * time.Second

// witness is an engine that runs until its context ends, and tells when and why.
type witness struct {
	queue *fakeQueue

	mu    sync.Mutex
	at    time.Duration
	cause error
}

func (*witness) Validate(context.Context, berth.Run) ([]string, error) { return nil, nil }

func (w *witness) Take(ctx context.Context, _ berth.Run, _ worker.Report) (worker.Taken, error) {
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.cause = time.Since(w.queue.began), context.Cause(ctx)
	return nil, ctx.Err()
}

// last says when and why the last run ended that did.
func (w *witness) last() (time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at, w.cause
}

func TestTrustEndsBeforeTheLeaseWhereNoRenewalSucceeds(t *testing.T) {
	for name, answer := range map[string]func(context.Context) error{
		"refused": func(context.Context) error { return errAway },
		"hangs": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				q.put("nightly")
				const cut = 30 * time.Second // after the renewal at 20 s
				q.hook = func(ctx context.Context, c call) error {
					if c.at >= cut {
						return answer(ctx)
					}
					return nil
				}
				engine := &witness{queue: q}
				start(t, q, engine, worker.Config{Lease: lease})
				time.Sleep(10 * time.Minute)
				if at, cause := engine.last(); at != 20*time.Second+trusted || !errors.Is(cause, berth.ErrLeaseLost) {
					t.Errorf("the run's context ended at %s with %v, want %s", at, cause, 20*time.Second+trusted)
				}
				if diff := cmp.Diff([]string{"Start"}, q.life(1)); diff != "" {
					t.Errorf("what was written (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The trust counts from before the lease was asked for: a slow answer shortens
// it.
func TestTrustCountsFromBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(_ context.Context, c call) error {
			switch {
			case c.name == "Dispatch" && c.at == 0:
				time.Sleep(15 * time.Second)
			case c.name == "Renew" && c.at > 0:
				return errAway
			}
			return nil
		}
		engine := &witness{queue: q}
		start(t, q, engine, worker.Config{Lease: lease})
		time.Sleep(10 * time.Minute)
		if at, _ := engine.last(); at != trusted {
			t.Errorf("the run's context ended at %s, want %s", at, trusted)
		}
	})
}

func TestRenewalsKeepARunForAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		start(t, q, taking(q, 2*time.Hour), worker.Config{Lease: lease, Recheck: never})
		time.Sleep(3 * time.Hour)
		if diff := cmp.Diff([]string{"Start", "Finalize", "Publish", "Finish", "Close"}, sortCloseLast(q.life(1))); diff != "" {
			t.Errorf("the calls of the run (-want +got):\n%s", diff)
		}
		renewals := q.of("Renew")
		for i, r := range renewals[1:] {
			if gap := r.at - renewals[i].at; gap != lease.Renew {
				t.Fatalf("renewed at %s and at %s", renewals[i].at, r.at)
			}
		}
	})
}

// One renewal that fails is tried again soon enough that the run goes on.
func TestARenewalThatFailsIsTriedAgainSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(_ context.Context, c call) error {
			// Away for 25 s of each minute.
			if c.name == "Renew" && c.at%time.Minute > 15*time.Second && c.at%time.Minute < 40*time.Second {
				return errAway
			}
			return nil
		}
		start(t, q, taking(q, 10*time.Minute), worker.Config{Lease: lease, Recheck: never})
		time.Sleep(time.Hour)
		if ends := q.of("Finish"); len(ends) != 1 || ends[0].outcome.Phase != berth.PhaseCompleted {
			t.Errorf("the run was ended by %+v", ends)
		}
	})
}

func TestALostLeaseStopsTheRunAndNothingMoreIsWritten(t *testing.T) {
	for name, lostAt := range map[string]string{
		"told by a renewal": "Renew", "told by the start": "Start", "told by progress": "Progress",
		"told by the end of the items": "Finalize", "told by the store": "Publish", "told by the end": "Finish",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				q.put("nightly", "other")
				q.hook = func(_ context.Context, c call) error {
					switch {
					case c.name == lostAt && lostAt == "Publish" && c.fence == 1:
						return fmt.Errorf("publish: %w", berth.ErrLeaseLost)
					case c.name == lostAt && (c.fence == 1 || c.name == "Renew" && c.at > 0):
						q.lose(1)
					}
					return nil
				}
				engine := engineFunc(func(ctx context.Context, run berth.Run, report worker.Report) (worker.Taken, error) {
					report.Progress(berth.Progress{ItemsBackedUp: 1})
					return taking(q, time.Minute)(ctx, run, report)
				})
				start(t, q, engine, worker.Config{Lease: lease})
				time.Sleep(10 * time.Minute)
				life := q.life(1)
				last := life[len(life)-1]
				if last == "Close" {
					last = life[len(life)-2]
				}
				if lostAt == "Renew" {
					if last != "Progress" {
						t.Errorf("the lost run wrote %q", life)
					}
				} else if last != lostAt {
					t.Errorf("the lost run wrote %q after it was told so by %s", life, lostAt)
				}
				other := q.life(2)
				if last := sortCloseLast(other); last[len(last)-2] != "Finish" {
					t.Errorf("the run beside it wrote %q", other)
				}
				if len(q.of("Release")) > 0 {
					t.Error("a lost run was given back")
				}
				renewals := q.of("Renew")
				if last := renewals[len(renewals)-1]; last.leases != 0 {
					t.Errorf("%d leases are still renewed", last.leases)
				}
			})
		})
	}
}

// A backup that a worker lost may come back to the same worker while its former
// run has not ended yet.
func TestABackupThatComesBackKeepsItsNewLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("nightly")
		q.hook = func(_ context.Context, c call) error {
			if c.name == "Renew" && c.at == lease.Renew {
				q.lose(1)
				q.put("nightly")
			}
			return nil
		}
		engine := engineFunc(func(ctx context.Context, run berth.Run, report worker.Report) (worker.Taken, error) {
			taken, err := taking(q, 10*time.Minute)(ctx, run, report)
			if err != nil {
				time.Sleep(time.Minute) // it stops late
			}
			return taken, err
		})
		start(t, q, engine, worker.Config{Lease: lease})
		time.Sleep(time.Hour)
		if diff := cmp.Diff([]string{"Start"}, q.life(1)); diff != "" {
			t.Errorf("the lost run's calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"Start", "Finalize", "Publish", "Finish", "Close"}, sortCloseLast(q.life(2))); diff != "" {
			t.Errorf("the later run's calls (-want +got):\n%s", diff)
		}
	})
}

func TestAllLeasesAreRenewedInOneStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.put("a", "b", "c")
		start(t, q, taking(q, time.Hour), worker.Config{Lease: lease})
		time.Sleep(time.Minute + time.Second)
		var leases []int
		for _, r := range q.of("Renew") {
			leases = append(leases, r.leases)
		}
		// The first one, before anything is held, says that the worker is there.
		if diff := cmp.Diff([]int{3, 3, 3}, leases[1:]); diff != "" {
			t.Errorf("leases of each renewal (-want +got):\n%s", diff)
		}
	})
}

func TestLeaseTimesThatCannotWorkAreRefused(t *testing.T) {
	for _, test := range []struct {
		lease worker.Lease
		good  bool
	}{
		{worker.Lease{}, true},
		{worker.Lease{TTL: 3 * time.Second, Renew: time.Second, Margin: 500 * time.Millisecond, Grace: 500 * time.Millisecond}, true},
		{worker.Lease{TTL: 30 * time.Second}, false}, // renewed every 20 s with a margin of 10 s
		{worker.Lease{Renew: time.Minute}, false},
		{worker.Lease{Margin: time.Minute}, false},
		{worker.Lease{TTL: -time.Second}, false},
		{worker.Lease{Grace: -time.Second}, false},
	} {
		if err := test.lease.Check(); (err == nil) != test.good {
			t.Errorf("%+v: %v", test.lease, err)
		}
	}
}
