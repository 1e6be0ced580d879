package bench

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
)

//go:embed seed.sql
var seedSQL string

// seedChunk is how many backups one statement puts into the queue.
const seedChunk = 5000

// seeded is a database with a queue that has been looked at once: each backup
// knows what it waits for. Nobody is connected to it.
type seeded struct {
	name    string
	cluster string
	// queued are the ids of the backups in the queue's order; those at its head run.
	queued  []uuid.UUID
	running []berth.Run
}

// seed fills a database of its own with a queue.
func (b *bench) seed(ctx context.Context, s shape, depth int, r *record) (seeded, error) {
	name, err := b.scratch.migrated(ctx)
	if err != nil {
		return seeded{}, err
	}
	q, err := b.open(ctx, seeded{name: name, cluster: clusterName}, s, depth, r)
	if err != nil {
		return seeded{}, err
	}
	defer q.close()
	// Of a queue that is made only the gates are noted.
	if err := r.warmUp(func() error { return q.fill(ctx) }); err != nil {
		return seeded{}, fmt.Errorf("fill a queue: %w", err)
	}
	if err := q.holdRuns(ctx); err != nil {
		return seeded{}, err
	}
	return q.seeded, q.vacuum(ctx)
}

// fill makes a cluster and its queue, which nobody has looked at yet.
func (q *queue) fill(ctx context.Context) error {
	if err := addCluster(ctx, q.store, q.cluster, q.shape.limit); err != nil {
		return err
	}
	if err := q.store.SyncNamespaces(ctx, q.cluster, q.shape.namespaces(q.depth)); err != nil {
		return err
	}
	requests := make([]berth.Request, q.depth)
	for i := range requests {
		requests[i] = q.shape.request(i, q.depth)
		requests[i].Cluster = q.cluster
	}
	ids, err := insert(ctx, q.url, requests)
	if err != nil {
		return err
	}
	q.queued = append(q.queued, ids...)
	return q.vacuum(ctx)
}

func addCluster(ctx context.Context, store *db.Store, name string, limit int) error {
	if err := store.AddCluster(ctx, name); err != nil {
		return err
	}
	if _, err := store.EnsureStorageLocation(ctx, berth.StorageLocation{
		Cluster: name, Name: berth.DefaultStorageLocation, URL: "file:///berth-bench", Prefix: name,
	}); err != nil {
		return err
	}
	return store.SetConcurrentBackups(ctx, name, limit)
}

// seedRow is a backup as seed.sql reads it.
type seedRow struct {
	ID       uuid.UUID       `json:"id"`
	Name     string          `json:"name"`
	Spec     json.RawMessage `json:"spec"`
	Scope    berth.ScopeKind `json:"scope"`
	Literals []string        `json:"literals"`
}

// insert puts backups into the queue of a cluster that has their namespaces.
func insert(ctx context.Context, databaseURL string, requests []berth.Request) ([]uuid.UUID, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	var ids []uuid.UUID
	for from := 0; from < len(requests); from += seedChunk {
		rows, err := seedRows(requests[from:min(from+seedChunk, len(requests))])
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(rows)
		if err != nil {
			return nil, fmt.Errorf("encode backups: %w", err)
		}
		_, err = conn.Exec(ctx, seedSQL, pgx.NamedArgs{"cluster": requests[0].Cluster, "backups": text, "max_attempts": berth.DefaultMaxAttempts})
		if err != nil {
			return nil, fmt.Errorf("insert %d backups: %w", len(rows), err)
		}
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
	}
	return ids, nil
}

func seedRows(requests []berth.Request) ([]seedRow, error) {
	rows := make([]seedRow, len(requests))
	for i, r := range requests {
		scope, problems := berth.ScopeOf(r.Spec.IncludedNamespaces, r.Spec.ExcludedNamespaces)
		if problems != nil {
			return nil, fmt.Errorf("the scope of %s: %s", r.Name, problems[0].Detail)
		}
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("make an id: %w", err)
		}
		spec, err := json.Marshal(r.Spec.WithDefaults())
		if err != nil {
			return nil, fmt.Errorf("encode the spec of %s: %w", r.Name, err)
		}
		rows[i] = seedRow{ID: id, Name: r.Name, Spec: spec, Scope: scope.Kind, Literals: append([]string{}, scope.Literals()...)}
	}
	return rows, nil
}

// holdRuns has every backup learn what it waits for and as many run as the shape
// holds.
func (q *queue) holdRuns(ctx context.Context) error {
	if err := q.markAll(ctx, "mark_all"); err != nil {
		return err
	}
	for len(q.running) < q.shape.hold {
		done, err := q.store.Dispatch(ctx, q.ask(q.shape.hold-len(q.running)))
		if err != nil {
			return err
		}
		if len(done.Runs) == 0 {
			break
		}
		q.running = append(q.running, done.Runs...)
	}
	return q.admitsNone(ctx)
}

// markAll measures how soon all that wait have been looked at: how many a second.
func (q *queue) markAll(ctx context.Context, metric string) error {
	started := time.Now()
	// One look without room marks a few thousand.
	for range 2 + q.depth/5000 {
		if err := q.admitsNone(ctx); err != nil {
			return err
		}
	}
	if q.depth > 0 {
		q.record.rate(Cell{Metric: metric, N: q.depth, PerSecond: rate(q.depth, time.Since(started))})
	}
	return nil
}
