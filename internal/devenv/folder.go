package devenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// folderPrefix begins the name of every temporary folder of this package, so
// that those of killed processes are found.
const folderPrefix = "berth-devenv-"

// folder is a temporary folder. It is this process's for as long as the process
// holds the lock on the file `lock` in it, which the kernel releases at the
// latest when the process dies.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a temporary folder that only the account may enter (nil: this
// process's user). It first removes folders of processes that died without
// removing theirs.
func newFolder(name string, owner *account) (*folder, error) {
	base := os.TempDir()
	if !owner.mayEnter(base) {
		base = "/tmp"
	}
	removeAbandoned(base)
	f, err := lockedFolder(base, name)
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	if err := owner.own(f.path); err != nil {
		return nil, errors.Join(fmt.Errorf("make a temporary folder: %w", err), f.remove())
	}
	return f, nil
}

// lockedFolder makes a folder that is locked by the time it has the name that
// removeAbandoned looks for.
func lockedFolder(base, name string) (*folder, error) {
	unlocked, err := os.MkdirTemp(base, "."+folderPrefix+name+"-")
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(unlocked, "lock"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(unlocked))
	}
	path := filepath.Join(base, strings.TrimPrefix(filepath.Base(unlocked), "."))
	if err := os.Rename(unlocked, path); err != nil {
		_ = lock.Close()
		return nil, errors.Join(err, os.RemoveAll(unlocked))
	}
	return &folder{path: path, lock: lock}, nil
}

// TemporaryFolder makes a folder of this process's own and gives its path and what
// removes it. Those of processes that were killed are removed first.
func TemporaryFolder(name string) (path string, remove func() error, err error) {
	f, err := newFolder(name, nil)
	if err != nil {
		return "", nil, err
	}
	return f.path, f.remove, nil
}

func (f *folder) join(name string) string { return filepath.Join(f.path, name) }

func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	_ = f.lock.Close()
	if err != nil {
		return fmt.Errorf("remove a temporary folder: %w", err)
	}
	return nil
}

// removeAbandoned removes the folders whose lock nobody holds. What cannot be
// removed, another user's folders among them, is left: it is in nobody's way.
func removeAbandoned(base string) {
	paths, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*"))
	for _, path := range paths {
		lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(path)
		}
		_ = lock.Close()
	}
}
