package devenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// systemCache takes the cache's place for what another user than root must read
// where root's own cache is closed to others.
const systemCache = "/var/cache/berth"

// cacheFolder returns the folder berth in the user's cache folder and makes it.
func cacheFolder() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	dir := filepath.Join(base, "berth")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	return dir, nil
}

// postgresCacheFolder is cacheFolder for binaries of Postgres, which root runs as
// another user.
func postgresCacheFolder() (string, error) {
	owner, err := postgresAccount()
	if err != nil {
		return "", err
	}
	dir, err := cacheFolder()
	if err != nil || owner.mayEnter(dir) {
		return dir, err
	}
	if err := os.MkdirAll(systemCache, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	return systemCache, nil
}

// cached returns the folder name inside the cache folder dir, and fills it first
// if it is not there. A second process that asks for the same folder waits for
// the first. fill gets a new folder, which takes the name only when fill
// succeeded, so that what has the name is complete.
func cached(ctx context.Context, dir, name string, progress io.Writer, fill func(ctx context.Context, into string) error) (string, error) {
	path := filepath.Join(dir, name)
	if isFolder(path) {
		return path, nil
	}
	end := announce(progress, "waiting for another process that makes "+path)
	lock, err := waitLockFile(ctx, path+".lock")
	end()
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if isFolder(path) {
		return path, nil
	}
	into := path + ".part"
	if err := os.RemoveAll(into); err != nil { // of a process that was killed
		return "", err
	}
	if err := os.Mkdir(into, 0o755); err != nil {
		return "", err
	}
	if err := fill(ctx, into); err != nil {
		_ = os.RemoveAll(into)
		return "", err
	}
	return path, os.Rename(into, path)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
