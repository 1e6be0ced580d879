package devenv

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestAbandonedFoldersAreRemovedAndHeldOnesKept(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	abandoned, held := filepath.Join(base, folderPrefix+"abandoned"), filepath.Join(base, folderPrefix+"held")
	for _, dir := range []string{abandoned, held} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		lock, err := lockFile(filepath.Join(dir, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		if dir == abandoned {
			lock.Close()
		} else {
			defer lock.Close()
		}
	}
	removeAbandoned(base)
	if isFolder(abandoned) || !isFolder(held) {
		t.Errorf("abandoned is there: %t; held is there: %t", isFolder(abandoned), isFolder(held))
	}
}

func TestNewFoldersAreNotTakenForAbandonedOnes(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				f, err := lockedFolder(base, "new")
				if err != nil {
					t.Error(err)
					return
				}
				removeAbandoned(base)
				if !isFolder(f.path) {
					t.Errorf("%s was removed while it was held", f.path)
				}
				if err := f.remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
