// Package db keeps Berth's rows in Postgres: the queue, its admission, leases,
// the namespaces of every cluster and the events. It is the only room that
// speaks SQL; its errors are berth's.
package db

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/migrations"
)

// Store is one database. It is safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	// apart is how dequeues are kept from one another.
	apart apart
	// gateHeld, if set, learns how long each transaction held its gate.
	gateHeld func(time.Duration)

	mu      sync.Mutex
	ids     map[string]int32 // of clusters, by name
	retries map[string]int
	hits    map[string]int
}

// Open connects to the database that the URL names. It fails where the
// database cannot be reached or has an older schema than this binary.
func Open(ctx context.Context, databaseURL string) (*Store, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	// A plan that was made while the tables were empty is not kept for ever.
	config.MaxConnLifetime = 30 * time.Minute
	config.MaxConnLifetimeJitter = 5 * time.Minute
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "berth"
	}
	config.AfterConnect = warm
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	s := &Store{pool: pool, apart: apart{gate: true, dequeue: beginSerializable}, ids: map[string]int32{}, retries: map[string]int{}, hits: map[string]int{}}
	if err := s.Ready(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// Close closes every connection. It waits for those in use.
func (s *Store) Close() { s.pool.Close() }

// Ready says whether the database can be reached and its schema is at least
// this binary's.
func (s *Store) Ready(ctx context.Context) error {
	var version uint
	var dirty bool
	err := s.pool.QueryRow(ctx, statement("schema_version")).Scan(&version, &dirty)
	switch {
	case sqlState(err) == undefinedTable || errors.Is(err, pgx.ErrNoRows):
		// No migration has run yet, or all were taken back.
		version = 0
	case err != nil:
		return border(fmt.Errorf("read the schema's version: %w", err))
	}
	switch {
	case dirty:
		return migrations.BrokeOff(version)
	case version < migrations.Latest:
		return fmt.Errorf("the database's schema is at version %d, this berth needs %d: run: berth migrate up", version, migrations.Latest)
	}
	return nil
}

// Retries counts the transactions that were run again, by SQLSTATE.
func (s *Store) Retries() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return clone(s.retries)
}

// ConstraintHits counts how often a last line of defence refused an admission,
// by the constraint's name. Behind the gate it stays empty.
func (s *Store) ConstraintHits() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return clone(s.hits)
}

func clone(counts map[string]int) map[string]int {
	copied := make(map[string]int, len(counts))
	for key, n := range counts {
		copied[key] = n
	}
	return copied
}

// cluster is a row of clusters.
type cluster struct {
	ID                int32
	Name              string
	ConcurrentBackups int
	MaxQueued         *int
	InventoryVersion  int64
	Synced            bool
}

// errNoCluster tells a cluster that does not exist from every other error.
var errNoCluster = errors.New("no such cluster")

func unknownCluster(name string) error {
	return fmt.Errorf("%w: %w", errNoCluster, berth.Errorf(berth.CodeNotFound, "there is no cluster %q", name))
}
