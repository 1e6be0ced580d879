package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/berth-backup/berth"
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
	if flags.storageURL != "" {
		// Once it is stored, a mistake would be there to stay.
		if err := checkLocation(ctx, wanted); err != nil {
			return fmt.Errorf("--storage-url: %w", err)
		}
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

// checkLocation says whether a store can be opened there, which asks nobody.
func checkLocation(ctx context.Context, l berth.StorageLocation) error {
	store, err := objectstore.Open(ctx, l.URL, l.Prefix)
	if err != nil {
		return err
	}
	return store.Close()
}
