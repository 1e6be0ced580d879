package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/worker"
)

const (
	// quietTime is without a dequeue before the next thing is measured, so that
	// none is under way.
	quietTime = 10 * time.Millisecond
	// overdue is when a backup that might start is no longer waited for, but asked about.
	overdue = 250 * time.Millisecond
	// lost is when nothing more is expected.
	lost = 30 * time.Second
)

// dispatcher is a worker that listens as every worker does, with a store of its
// own, whose dequeues are watched. What it runs stands still until it is let go.
type dispatcher struct {
	*worker.Worker
	engine *standing
	passes chan pass
	busy   atomic.Int32
	// admitted are those that nobody has asked for yet.
	admitted []berth.Run
	stop     func() error
}

// pass is one dequeue of the worker's.
type pass struct {
	started, ended time.Time
	runs           []berth.Run
}

// watched is a store whose dequeues are told.
type watched struct {
	*db.Store
	d *dispatcher
}

func (s watched) Dispatch(ctx context.Context, r berth.DispatchRequest) (berth.Dispatched, error) {
	s.d.busy.Add(1)
	defer s.d.busy.Add(-1)
	started := time.Now()
	done, err := s.Store.Dispatch(ctx, r)
	s.d.passes <- pass{started, time.Now(), done.Runs}
	return done, err
}

// startWorker returns when the worker has taken what may start.
func (q *queue) startWorker(ctx context.Context) (*dispatcher, error) {
	store, err := openStore(ctx, q.url, q.record)
	if err != nil {
		return nil, err
	}
	d := &dispatcher{engine: newStanding(), passes: make(chan pass, 1024)}
	ready := make(chan struct{})
	close(ready)
	log := slog.New(slog.DiscardHandler)
	d.Worker = worker.New(watched{store, d}, d.engine, worker.Config{
		Cluster: q.cluster, ID: "bench-worker", Lease: worker.Lease{TTL: leaseTTL}, Ready: ready, Log: log,
	})
	alive, cancel := context.WithCancel(ctx)
	var loops sync.WaitGroup
	heard := make(chan struct{})
	var once sync.Once
	loops.Go(func() {
		worker.Listener{
			Listen: func(ctx context.Context, hint func()) error {
				return store.Listen(ctx, []string{db.ChannelQueue, db.ChannelMirror}, hint)
			},
			Hint: func() { d.Kick(); once.Do(func() { close(heard) }) },
			Log:  log,
		}.Run(alive)
	})
	var runErr error
	loops.Go(func() { runErr = d.Run(alive) })
	d.stop = func() error {
		cancel()
		go func() {
			for range d.passes { // until it has ended
			}
		}()
		loops.Wait()
		close(d.passes)
		store.Close()
		q.record.count(store)
		return runErr
	}
	select {
	case <-heard:
	case <-time.After(lost):
		return nil, errors.Join(errors.New("the worker does not listen"), d.stop())
	}
	if _, err := d.next(ctx); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

// quiet returns when there was no dequeue for a while.
func (d *dispatcher) quiet() {
	for {
		select {
		case p := <-d.passes:
			d.admitted = append(d.admitted, p.runs...)
		case <-time.After(quietTime):
			if d.busy.Load() == 0 {
				return
			}
		}
	}
}

// take gives what was admitted and not asked for.
func (d *dispatcher) take() []berth.Run {
	runs := d.admitted
	d.admitted = nil
	return runs
}

// admission waits until one backup was admitted, and says when.
func (d *dispatcher) admission(ctx context.Context, name string) (time.Time, berth.Run, error) {
	timer := time.NewTimer(lost)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return time.Time{}, berth.Run{}, ctx.Err()
		case <-timer.C:
			return time.Time{}, berth.Run{}, fmt.Errorf("%s was not admitted within %v", name, lost)
		case p := <-d.passes:
			for i, run := range p.runs {
				if run.Name == name {
					d.admitted = append(append(d.admitted, p.runs[:i]...), p.runs[i+1:]...)
					return p.ended, run, nil
				}
			}
			d.admitted = append(d.admitted, p.runs...)
		}
	}
}

// next waits until anything was admitted, and says when; the zero time where
// a dequeue that is asked for after a while finds that nothing may start.
func (d *dispatcher) next(ctx context.Context) (time.Time, error) {
	timer := time.NewTimer(overdue)
	defer timer.Stop()
	var asked time.Time
	for {
		select {
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-timer.C:
			asked = time.Now()
			d.Kick()
		case p := <-d.passes:
			d.admitted = append(d.admitted, p.runs...)
			switch {
			case len(p.runs) > 0:
				return p.ended, nil
			case !asked.IsZero() && p.started.After(asked):
				return time.Time{}, nil
			}
		}
	}
}

// standing is an engine whose backups stand still.
type standing struct {
	mu     sync.Mutex
	places map[int64]place
}

// place is where a run stands.
type place struct{ begun, end chan struct{} }

func newStanding() *standing { return &standing{places: map[int64]place{}} }

func (s *standing) place(run berth.Run) place {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.places[run.Fence]
	if !ok {
		p = place{make(chan struct{}), make(chan struct{})}
		s.places[run.Fence] = p
	}
	return p
}

func (*standing) Validate(context.Context, berth.Run) ([]string, error) { return nil, nil }

// Take stands until the run is let go, which somebody else has ended.
func (s *standing) Take(ctx context.Context, run berth.Run, _ worker.Report) (worker.Taken, error) {
	p := s.place(run)
	close(p.begun)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.end:
		return nil, fmt.Errorf("somebody else ended it: %w", berth.ErrLeaseLost)
	}
}

// begun waits until the run is InProgress: its worker writes nothing more.
func (s *standing) begun(ctx context.Context, run berth.Run) error {
	select {
	case <-s.place(run).begun:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *standing) let(run berth.Run) { close(s.place(run).end) }
