package db_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

// Of processes that start at once each makes the location and gets the one that
// was made.
func TestEnsureStorageLocationAtOnce(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	for round := range 50 {
		wanted := berth.StorageLocation{
			Cluster: berth.DefaultCluster, Name: fmt.Sprintf("location-%d", round), URL: "file:///data", Prefix: fmt.Sprint(round), Available: true,
		}
		start := make(chan struct{})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				<-start
				if got, err := d.EnsureStorageLocation(t.Context(), wanted); err != nil || got != wanted {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		}
		close(start)
		all.Wait()
	}
}

func TestEnsureStorageLocationMovesAndSharesNone(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	first := berth.StorageLocation{Cluster: berth.DefaultCluster, Name: "first", URL: "file:///data", Prefix: "a", Available: true}
	moved, shared := first, first
	moved.URL, shared.Name = "file:///elsewhere", "second"
	for _, wanted := range []berth.StorageLocation{first, moved} {
		if got, err := d.EnsureStorageLocation(t.Context(), wanted); err != nil || got != first {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if _, err := d.EnsureStorageLocation(t.Context(), shared); err == nil || !strings.Contains(err.Error(), "another one") {
		t.Errorf("a second location in the same place: %v", err)
	}
}
