package worker_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/worker"
)

// errAway is what a store says whose database cannot be reached.
var errAway = berth.Errorf(berth.CodeNotReady, "the database cannot be reached")

// quiet is a log that nobody reads.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// call is one call of the queue, or of what an engine has taken.
type call struct {
	// at is when it began, counted from the start of the test.
	at     time.Duration
	name   string
	fence  int64
	want   int
	leases int
	// maxBackups is what a worker says that it runs at once.
	maxBackups *int
	progress   berth.Progress
	text       string
	outcome    berth.Outcome
	final      berth.Backup
}

// fakeQueue is a queue in memory that admits whatever waits. It notes every
// call, also those that it lets fail.
type fakeQueue struct {
	began time.Time
	// hook, if set, is asked first; its error is the answer. It may block.
	hook func(context.Context, call) error

	mu      sync.Mutex
	fence   int64
	waiting []berth.Run
	// lost are the fences that are no longer their backups'.
	lost  map[int64]bool
	calls []call
}

func newQueue() *fakeQueue { return &fakeQueue{began: time.Now(), lost: map[int64]bool{}} }

// put makes a backup wait.
func (q *fakeQueue) put(names ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, name := range names {
		q.waiting = append(q.waiting, berth.Run{
			Seq: int64(i) + 100, ID: uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)), Cluster: berth.DefaultCluster, Name: name, Attempt: 1,
			Labels: map[string]string{"name": name}, Spec: berth.Spec{IncludedNamespaces: []string{name}},
		})
	}
}

// lose takes the run with that fence from its worker.
func (q *fakeQueue) lose(fence int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost[fence] = true
}

func (q *fakeQueue) note(ctx context.Context, c call) error {
	c.at = time.Since(q.began)
	q.mu.Lock()
	q.calls = append(q.calls, c)
	q.mu.Unlock()
	if q.hook != nil {
		if err := q.hook(ctx, c); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// write is a call that needs the fence.
func (q *fakeQueue) write(ctx context.Context, c call) error {
	if err := q.note(ctx, c); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost[c.fence] {
		return berth.ErrLeaseLost
	}
	return nil
}

func (q *fakeQueue) Dispatch(ctx context.Context, r berth.DispatchRequest) (berth.Dispatched, error) {
	err := q.note(ctx, call{name: "Dispatch", want: r.Want})
	q.mu.Lock()
	defer q.mu.Unlock()
	var done berth.Dispatched
	if err != nil && !errors.Is(err, errHalf) {
		return done, err
	}
	for len(q.waiting) > 0 && len(done.Runs) < r.Want {
		run := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.fence++
		run.Fence = q.fence
		run.Slot = len(done.Runs) + 1
		done.Runs = append(done.Runs, run)
	}
	return done, err
}

// errHalf is an error that comes after something was admitted.
var errHalf = errors.New("the second transaction failed")

func (q *fakeQueue) Renew(ctx context.Context, h berth.Heartbeat) (lost []berth.Run, err error) {
	if err := q.note(ctx, call{name: "Renew", leases: len(h.Held), maxBackups: h.MaxBackups}); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, run := range h.Held {
		if q.lost[run.Fence] {
			lost = append(lost, run)
		}
	}
	return lost, nil
}

func (q *fakeQueue) Start(ctx context.Context, run berth.Run) error {
	return q.write(ctx, call{name: "Start", fence: run.Fence})
}

func (q *fakeQueue) Progress(ctx context.Context, run berth.Run, p berth.Progress) error {
	return q.write(ctx, call{name: "Progress", fence: run.Fence, progress: p})
}

func (q *fakeQueue) Finalize(ctx context.Context, run berth.Run, o berth.Outcome) error {
	return q.write(ctx, call{name: "Finalize", fence: run.Fence, outcome: o})
}

func (q *fakeQueue) Finish(ctx context.Context, run berth.Run, o berth.Outcome) error {
	return q.write(ctx, call{name: "Finish", fence: run.Fence, outcome: o})
}

func (q *fakeQueue) Release(ctx context.Context, run berth.Run, _ string) error {
	return q.write(ctx, call{name: "Release", fence: run.Fence})
}

func (q *fakeQueue) AppendLog(ctx context.Context, run berth.Run, chunk int, text string) error {
	return q.write(ctx, call{name: "AppendLog", fence: run.Fence, want: chunk, text: text})
}

func (q *fakeQueue) GiveUp(ctx context.Context, run berth.Run, reason, message string) error {
	return q.write(ctx, call{name: "GiveUp", fence: run.Fence, outcome: berth.Outcome{Reason: reason, Message: message}})
}

func (q *fakeQueue) Retire(ctx context.Context, _ string) error {
	return q.note(ctx, call{name: "Retire"})
}

// of gives the calls of these names.
func (q *fakeQueue) of(names ...string) []call {
	q.mu.Lock()
	defer q.mu.Unlock()
	var found []call
	for _, c := range q.calls {
		if slices.Contains(names, c.name) {
			found = append(found, c)
		}
	}
	return found
}

// life names the calls of one run, in order.
func (q *fakeQueue) life(fence int64) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var names []string
	for _, c := range q.calls {
		if c.fence == fence {
			names = append(names, c.name)
		}
	}
	return names
}

// engineFunc is an engine.
type engineFunc func(ctx context.Context, run berth.Run, report worker.Report) (worker.Taken, error)

func (f engineFunc) Take(ctx context.Context, run berth.Run, report worker.Report) (worker.Taken, error) {
	return f(ctx, run, report)
}

// completed is the outcome of most runs here.
var completed = berth.Outcome{Phase: berth.PhaseCompleted, Progress: berth.Progress{ItemsBackedUp: 9, TotalItems: 9, Bytes: 900}}

func (engineFunc) Validate(context.Context, berth.Run) ([]string, error) { return nil, nil }

// taking is an engine that takes so long for each backup.
func taking(q *fakeQueue, d time.Duration) engineFunc {
	return func(ctx context.Context, run berth.Run, _ worker.Report) (worker.Taken, error) {
		select {
		case <-time.After(d):
			return fakeTaken{queue: q, fence: run.Fence, outcome: completed}, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// fakeTaken is a backup that was taken. What is done to it stands among the
// queue's calls.
type fakeTaken struct {
	queue   *fakeQueue
	fence   int64
	outcome berth.Outcome
}

func (f fakeTaken) Outcome() berth.Outcome { return f.outcome }

func (f fakeTaken) Publish(ctx context.Context, final berth.Backup) error {
	return f.queue.note(ctx, call{name: "Publish", fence: f.fence, final: final})
}

func (f fakeTaken) Close() error {
	return f.queue.note(context.Background(), call{name: "Close", fence: f.fence})
}

// running is a worker at work.
type running struct {
	*worker.Worker
	// stop is SIGTERM.
	stop context.CancelFunc
	// err is what Run returned; to be read after ended.
	err   error
	ended chan struct{}
}

// start runs a worker until the test ends. It may dequeue at once, unless the
// config says otherwise.
func start(t *testing.T, q *fakeQueue, engine worker.Engine, config worker.Config) *running {
	t.Helper()
	config.Cluster, config.ID, config.Log = berth.DefaultCluster, "w1", quiet
	if config.Ready == nil {
		ready := make(chan struct{})
		close(ready)
		config.Ready = ready
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &running{Worker: worker.New(q, engine, config), stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = r.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-r.ended
	})
	return r
}

// hasEnded says whether Run has returned.
func (r *running) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}
