package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/objectstore"
)

// ensureLocation makes a cluster's default storage location where it has none.
// A location that stands elsewhere than the command line says is not moved:
// backups point to it.
func ensureLocation(ctx context.Context, store *db.Store, flags storageFlags, cluster string, log *slog.Logger) error {
	wanted, err := flags.location(cluster)
	if err != nil {
		return err
	}
	stored, err := store.EnsureStorageLocation(ctx, wanted)
	if err != nil {
		return err
	}
	if flags.storageURL != "" && stored.URL != wanted.URL {
		return fmt.Errorf("storage location %s of cluster %s is %s, --storage-url says %s: backups stand there, so it is not moved",
			stored.Name, cluster, stored.URL, wanted.URL)
	}
	if stored.URL != wanted.URL {
		log.Info("the storage location stands elsewhere than --data says", "cluster", cluster, "location", stored.Name, "url", stored.URL)
	}
	return nil
}

// check opens the store that --storage-url names, which asks nobody: once it is
// in the database, a mistake would be there to stay. It comes before anything is
// written.
func (s *storageFlags) check(ctx context.Context) error {
	if s.storageURL == "" {
		return nil
	}
	store, err := objectstore.Open(ctx, s.storageURL, "")
	if err != nil {
		return fmt.Errorf("--storage-url: %w", err)
	}
	return store.Close()
}
