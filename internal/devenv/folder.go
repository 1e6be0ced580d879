package devenv

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
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
	path, err := os.MkdirTemp(base, folderPrefix+name+"-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	f := &folder{path: path}
	if f.lock, err = lockFile(filepath.Join(path, "lock")); err != nil {
		_ = os.RemoveAll(path)
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	if err := owner.own(path); err != nil {
		f.remove()
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	return f, nil
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
		if os.IsNotExist(err) && olderThan(path, time.Minute) {
			_ = os.RemoveAll(path) // its process died before it made the lock
		}
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(path)
		}
		_ = lock.Close()
	}
}

func olderThan(path string, age time.Duration) bool {
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()) > age
}
