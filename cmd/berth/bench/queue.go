// Package bench measures the queue: what a dequeue costs, how soon a backup
// starts and how that depends on how many wait and on what is in their way.
//
// Every measure is taken on a database of its own, which the run makes on the
// server and drops again.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
)

const (
	clusterName  = "bench"
	otherCluster = "bench-other"
	// connections are those of a store: as many as the most clients, and some
	// for what listens.
	connections = 16
	// leaseTTL outlasts every run.
	leaseTTL = time.Hour
)

// QueueOptions say what Queue measures.
type QueueOptions struct {
	// DatabaseURL names a database on the server to measure, as somebody who
	// may make databases. The database itself is not touched.
	DatabaseURL string
	// Depths are how many backups wait; Shapes are names of ShapeNames.
	Depths []int
	Shapes []string
	// Iterations is how often what is quick is measured; what is slow, 30 times at most.
	Iterations int
	// Header and Cell are called with what is known, as soon as it is.
	Header func(Header) error
	Cell   func(Cell) error
	// Progress gets a line for each shape and depth that is done.
	Progress io.Writer
}

// Check says what is wrong with the options; nil if nothing is.
func (o QueueOptions) Check() error {
	for _, name := range o.Shapes {
		if !slices.Contains(ShapeNames(), name) {
			return fmt.Errorf("there is no shape %q; there are: %v", name, ShapeNames())
		}
	}
	for _, depth := range o.Depths {
		if depth < 100 || depth > 1_000_000 {
			return fmt.Errorf("a depth is between 100 and 1,000,000, not %d", depth)
		}
	}
	if o.Iterations < 1 {
		return errors.New("something is to be measured at least once")
	}
	return nil
}

// slow is how often something slow is measured.
func (o QueueOptions) slow() int { return min(o.Iterations, 30) }

// warmUps is how often something is done before it is measured: more often than
// Postgres makes a plan for each call anew.
func (o QueueOptions) warmUps() int { return max(10, o.Iterations/10) }

// bench is one run.
type bench struct {
	QueueOptions
	scratch *scratch
}

// Queue measures each shape at each depth.
func Queue(ctx context.Context, o QueueOptions) (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	s, err := newScratch(ctx, o.DatabaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	header, err := s.header(ctx)
	if err != nil {
		return err
	}
	header.Iterations = o.Iterations
	if err := o.Header(header); err != nil {
		return err
	}
	b := &bench{QueueOptions: o, scratch: s}
	for _, shape := range shapes {
		depths := o.Depths
		if shape.name == emptyName {
			depths = []int{0}
		}
		if !slices.Contains(o.Shapes, shape.name) {
			continue
		}
		for _, depth := range depths {
			if err := b.cell(ctx, shape, depth); err != nil {
				return fmt.Errorf("measure %s at %d: %w", shape.name, depth, err)
			}
		}
	}
	return nil
}

// cell measures one shape at one depth and tells what came out.
func (b *bench) cell(ctx context.Context, s shape, depth int) error {
	r, started := newRecord(), time.Now()
	if err := s.measure(b, ctx, s, depth, r); err != nil {
		return err
	}
	for _, c := range r.cells(s.name, depth) {
		if err := b.Cell(c); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(b.Progress, "%s at %d: measured in %.0f s\n", s.name, depth, time.Since(started).Seconds())
	return err
}

// single takes every measure of one cluster, each on a copy of one seeded queue.
func (b *bench) single(ctx context.Context, s shape, depth int, r *record) error {
	original, err := b.seed(ctx, s, depth, r)
	if err != nil {
		return err
	}
	measures := []func(context.Context, *queue) error{b.steady, b.worker, b.cyclesOf(1), b.cyclesOf(8), b.cyclesOfWorker}
	for _, measure := range measures {
		if err := b.on(ctx, original, s, depth, r, measure); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(original.running, isKept) {
		for i := range b.slow() {
			measure := b.leaveWatched
			if i == 0 {
				measure = b.releaseAll
			}
			if err := b.on(ctx, original, s, depth, r, measure); err != nil {
				return err
			}
		}
	}
	return b.scratch.drop(ctx, original.name)
}

// empty measures an empty queue.
func (b *bench) empty(ctx context.Context, s shape, depth int, r *record) error {
	original, err := b.seed(ctx, s, depth, r)
	if err != nil {
		return err
	}
	if err := b.on(ctx, original, s, depth, r, b.worker); err != nil {
		return err
	}
	return b.scratch.drop(ctx, original.name)
}

// on measures on a copy of a seeded queue.
func (b *bench) on(ctx context.Context, original seeded, s shape, depth int, r *record, measure func(context.Context, *queue) error) error {
	name, err := b.scratch.copyOf(ctx, original.name)
	if err != nil {
		return err
	}
	copied := original
	copied.name = name
	copied.running = slices.Clone(original.running)
	copied.queued = slices.Clone(original.queued)
	q, err := b.open(ctx, copied, s, depth, r)
	if err != nil {
		return err
	}
	err = measure(ctx, q)
	q.close()
	return errors.Join(err, b.scratch.drop(context.WithoutCancel(ctx), name))
}

// queue is a database in which one queue is measured.
type queue struct {
	seeded
	shape  shape
	depth  int
	url    string
	store  *db.Store
	record *record
	named  int
}

func (b *bench) open(ctx context.Context, s seeded, of shape, depth int, r *record) (*queue, error) {
	q := &queue{seeded: s, shape: of, depth: depth, url: b.scratch.at(s.name), record: r}
	var err error
	q.store, err = openStore(ctx, q.url, r)
	return q, err
}

// openStore opens a store that has a connection for each client.
func openStore(ctx context.Context, databaseURL string, r *record) (*db.Store, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	query := u.Query()
	query.Set("pool_max_conns", strconv.Itoa(connections))
	u.RawQuery = query.Encode()
	store, err := db.Open(ctx, u.String())
	if err != nil {
		return nil, err
	}
	r.watch(store)
	return store, nil
}

func (q *queue) close() {
	q.store.Close()
	q.record.count(q.store)
}

// vacuum leaves the tables as autovacuum would in time.
func (q *queue) vacuum(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, q.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "vacuum analyze"); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	return nil
}

func (q *queue) ask(want int) berth.DispatchRequest {
	return berth.DispatchRequest{Cluster: q.cluster, Worker: "bench", Want: want, LeaseTTL: leaseTTL}
}

// next asks for what another backup asked for, at the end of the queue.
func (q *queue) next(spec berth.Spec) berth.Request {
	q.named++
	return berth.Request{Cluster: q.cluster, Name: fmt.Sprintf("next-%d", q.named), Spec: spec}
}

// outcome is how the backups of a measure end: from any phase of a running one.
func outcome() berth.Outcome {
	return berth.Outcome{Phase: berth.PhaseFailed, Reason: "Measured", FailureReason: "measured"}
}
