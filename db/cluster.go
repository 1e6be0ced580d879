package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// querier is a transaction or the pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func findCluster(ctx context.Context, q querier, name string) (cluster, error) {
	rows, err := q.Query(ctx, statement("cluster"), pgx.NamedArgs{"name": name})
	if err != nil {
		return cluster{}, fmt.Errorf("find cluster %s: %w", name, err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[cluster])
	if errors.Is(err, pgx.ErrNoRows) {
		return cluster{}, unknownCluster(name)
	}
	if err != nil {
		return cluster{}, fmt.Errorf("find cluster %s: %w", name, err)
	}
	return c, nil
}

// clusterID finds a cluster's id, which never changes, and remembers it.
func (s *Store) clusterID(ctx context.Context, name string) (int32, error) {
	s.mu.Lock()
	id, known := s.ids[name]
	s.mu.Unlock()
	if known {
		return id, nil
	}
	c, err := findCluster(ctx, s.pool, name)
	if err != nil {
		return 0, border(err)
	}
	s.mu.Lock()
	s.ids[name] = c.ID
	s.mu.Unlock()
	return c.ID, nil
}

// AddCluster adds a cluster with the default limits; one that exists is left
// as it is.
func (s *Store) AddCluster(ctx context.Context, name string) error {
	return s.ungated(ctx, func(tx *transaction) error {
		if _, err := tx.Exec(ctx, statement("add_cluster"), pgx.NamedArgs{"name": name}); err != nil {
			return fmt.Errorf("add cluster %s: %w", name, err)
		}
		return nil
	})
}

// SetStorageLocation makes or changes a storage location of a cluster.
func (s *Store) SetStorageLocation(ctx context.Context, location berth.StorageLocation) error {
	c, err := findCluster(ctx, s.pool, location.Cluster)
	if err != nil {
		return border(err)
	}
	return s.ungated(ctx, func(tx *transaction) error {
		_, err := tx.Exec(ctx, statement("set_location"), pgx.NamedArgs{
			"cluster_id": c.ID, "name": location.Name, "url": location.URL, "prefix": location.Prefix,
		})
		if err != nil {
			return fmt.Errorf("set storage location %s of cluster %s: %w", location.Name, location.Cluster, err)
		}
		return nil
	})
}

// EnsureStorageLocation makes a storage location where the cluster has none of
// that name, and gives back the one that it has.
func (s *Store) EnsureStorageLocation(ctx context.Context, location berth.StorageLocation) (berth.StorageLocation, error) {
	c, err := findCluster(ctx, s.pool, location.Cluster)
	if err != nil {
		return berth.StorageLocation{}, border(err)
	}
	stored := berth.StorageLocation{}
	err = s.ungated(ctx, func(tx *transaction) error {
		_, err := tx.Exec(ctx, statement("ensure_location"), pgx.NamedArgs{
			"cluster_id": c.ID, "name": location.Name, "url": location.URL, "prefix": location.Prefix,
		})
		if err != nil {
			return fmt.Errorf("make storage location %s of cluster %s: %w", location.Name, location.Cluster, err)
		}
		stored, err = findLocation(ctx, tx, c.ID, location.Name)
		if berth.CodeOf(err) == berth.CodeNotFound {
			return fmt.Errorf("make storage location %s of cluster %s: another one has its URL and prefix", location.Name, location.Cluster)
		}
		return err
	})
	stored.Cluster = location.Cluster
	return stored, err
}

// StorageLocation finds a storage location; CodeNotFound if there is none.
func (s *Store) StorageLocation(ctx context.Context, clusterName, name string) (berth.StorageLocation, error) {
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return berth.StorageLocation{}, border(err)
	}
	location, err := findLocation(ctx, s.pool, c.ID, name)
	location.Cluster = clusterName
	return location, border(err)
}

func findLocation(ctx context.Context, q querier, clusterID int32, name string) (berth.StorageLocation, error) {
	var l berth.StorageLocation
	err := q.QueryRow(ctx, statement("location"), pgx.NamedArgs{"cluster_id": clusterID, "name": name}).
		Scan(&l.Name, &l.URL, &l.Prefix, &l.ReadOnly, &l.Available, &l.Message)
	if errors.Is(err, pgx.ErrNoRows) {
		return l, berth.Errorf(berth.CodeNotFound, "there is no storage location %q", name)
	}
	if err != nil {
		return l, fmt.Errorf("find storage location %s: %w", name, err)
	}
	return l, nil
}

// Clusters lists the names of all clusters.
func (s *Store) Clusters(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, statement("clusters"))
	if err != nil {
		return nil, border(fmt.Errorf("list clusters: %w", err))
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, border(fmt.Errorf("list clusters: %w", err))
	}
	return names, nil
}
