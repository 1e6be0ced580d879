package main

import (
	"context"
	"fmt"

	"github.com/berth-backup/berth/db"
)

// ensureLocation makes a cluster's default storage location where it has none.
// A location that stands elsewhere than the command line says is not moved:
// backups point to it.
func ensureLocation(ctx context.Context, store *db.Store, flags storageFlags, cluster string) error {
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
	return nil
}
