// Package worker holds the loops of Berth's processes, a file a loop: the
// dispatcher that dequeues, the runner that takes one backup, the heartbeat
// that keeps its lease, the reaper, the marker and the janitor.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/berth-backup/berth"
)

// Lease is how long a worker's right to its backups lasts.
type Lease struct {
	// TTL is how long a worker may be silent before its backups count as lost,
	// by the database's clock. Default 60s.
	TTL time.Duration
	// Renew is how often it speaks. Default 20s.
	Renew time.Duration
	// Margin is how long before the end of its lease a worker stops by itself,
	// by its own monotonic clock from before it last asked. Default 10s.
	Margin time.Duration
	// Grace is how long after the end of a lease the reaper waits. Default 15s.
	Grace time.Duration
}

func (l Lease) withDefaults() Lease {
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{{&l.TTL, 60 * time.Second}, {&l.Renew, 20 * time.Second}, {&l.Margin, 10 * time.Second}, {&l.Grace, 15 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.unset
		}
	}
	return l
}

// Check says what is wrong with the numbers; nil if nothing is.
func (l Lease) Check() error {
	l = l.withDefaults()
	switch {
	case l.TTL < 0 || l.Renew < 0 || l.Margin < 0 || l.Grace < 0:
		return errors.New("lease times cannot be negative")
	case l.Renew+l.Margin >= l.TTL:
		return fmt.Errorf("a lease must outlast one renewal and the margin: renew + margin < ttl, not %s + %s and %s", l.Renew, l.Margin, l.TTL)
	}
	return nil
}

// Store is what a worker needs of the queue.
type Store interface {
	DispatchStore
	HeartbeatStore
	RunStore
	// Retire says that the worker is gone, in order.
	Retire(ctx context.Context, worker string) error
}

// Config says how one worker behaves.
type Config struct {
	// Cluster is the name of the cluster whose backups it takes.
	Cluster string
	// ID tells this process from every other.
	ID string
	// MaxBackups is how many backups this process runs at once; 0 means as many
	// as the cluster's limit allows.
	MaxBackups int
	Lease      Lease
	// Recheck is how often the queue is looked at without a hint. Default 2s.
	Recheck time.Duration
	// ShutdownGrace is how long running backups may go on after the worker was
	// told to stop; then they go back to the queue. With 0 they go back at once.
	ShutdownGrace time.Duration
	// Ready is closed when the worker may dequeue: the cluster's namespaces are known.
	Ready <-chan struct{}
	Log   *slog.Logger
}

// Worker dequeues one cluster's backups and runs them.
type Worker struct {
	config Config
	store  Store
	engine Engine
	kick   chan struct{}
	// draining is closed when it takes nothing more.
	draining chan struct{}

	mu sync.Mutex
	// held are the runs of this process by their fences. A backup that was lost
	// and admitted again may stand here twice, until its former run has ended.
	held map[int64]*hold
	runs sync.WaitGroup
}

// New makes a worker. Run starts it.
func New(store Store, engine Engine, config Config) *Worker {
	config.Lease = config.Lease.withDefaults()
	if config.Recheck == 0 {
		config.Recheck = 2 * time.Second
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	return &Worker{config: config, store: store, engine: engine, kick: make(chan struct{}, 1), draining: make(chan struct{}), held: map[int64]*hold{}}
}

// Kick hints that the queue may have work. It never blocks.
func (w *Worker) Kick() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// Run works until ctx ends. Then it takes nothing new, lets what runs go on for
// the shutdown grace and gives the rest back to the queue.
func (w *Worker) Run(ctx context.Context) error {
	// The heartbeat outlives ctx: what still runs needs its lease.
	alive, stopHeartbeat := context.WithCancel(context.WithoutCancel(ctx))
	var heartbeat sync.WaitGroup
	introduced := make(chan struct{})
	heartbeat.Go(func() {
		// Until it may dequeue it is no worker that anybody waits for.
		select {
		case <-w.config.Ready:
			w.heartbeat(alive, introduced)
		case <-alive.Done():
		}
	})

	w.dispatch(ctx, alive, introduced)
	w.config.Log.Info("shutting down: no more backups are taken", "running", len(w.heldRuns()), "grace", w.config.ShutdownGrace)
	close(w.draining)
	w.drain()

	stopHeartbeat()
	heartbeat.Wait()
	goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return w.store.Retire(goodbye, w.config.ID)
}

// drain waits for the running backups, for the shutdown grace at most; then it
// stops them and waits until they are back in the queue.
func (w *Worker) drain() {
	ended := make(chan struct{})
	go func() {
		w.runs.Wait()
		close(ended)
	}()
	grace := time.NewTimer(w.config.ShutdownGrace)
	defer grace.Stop()
	select {
	case <-ended:
		return
	case <-grace.C:
	}
	w.mu.Lock()
	for _, h := range w.held {
		h.stop(errShutdown)
	}
	w.mu.Unlock()
	<-ended
}

// heldRuns are the runs of this process, with what ends each.
func (w *Worker) heldRuns() []*hold {
	w.mu.Lock()
	defer w.mu.Unlock()
	holds := make([]*hold, 0, len(w.held))
	for _, h := range w.held {
		holds = append(holds, h)
	}
	return holds
}

// maxBackups is how many this process runs at once at most; nil: any number. One
// that takes nothing more is none that anybody waits for.
func (w *Worker) maxBackups() *int {
	select {
	case <-w.draining:
		return new(0)
	default:
	}
	if w.config.MaxBackups == 0 {
		return nil
	}
	return &w.config.MaxBackups
}

// room is how many more backups this process may take.
func (w *Worker) room() int {
	// A cluster's limit is 10,000 at most.
	const unlimited = 10000
	if w.config.MaxBackups == 0 {
		return unlimited
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(0, w.config.MaxBackups-len(w.held))
}

// take starts an admitted run. asked is when its lease was asked for.
func (w *Worker) take(ctx context.Context, run berth.Run, asked time.Time) {
	h := newHold(ctx, run, asked.Add(w.config.Lease.TTL-w.config.Lease.Margin))
	w.mu.Lock()
	w.held[run.Fence] = h
	w.mu.Unlock()
	w.runs.Go(func() {
		defer func() {
			h.stop(nil)
			w.mu.Lock()
			delete(w.held, run.Fence)
			w.mu.Unlock()
			w.Kick()
		}()
		w.run(h)
	})
}
