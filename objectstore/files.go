package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

const (
	// Archives hold Secrets: nobody but the owner reads them.
	folderMode fs.FileMode = 0o700
	// unfinished starts the names of files that are being written.
	unfinished = ".unfinished-"
)

// files publishes objects on a file system. A file is written under a name
// that nothing reads and then linked to its own: link(2) is atomic and fails
// where the name exists, which a look before a rename is not.
type files struct{ root string }

// rootOf is the folder that a file URL names. As in gocloud.dev/blob, the host
// "." makes the path relative.
func rootOf(location *url.URL) (string, error) {
	root := filepath.FromSlash(location.Path)
	if location.Host == "." {
		root = filepath.Join(".", root)
	}
	if root == "" {
		return "", errors.New("storage URL: file:// needs a path")
	}
	return root, nil
}

func (f *files) path(key string) string { return filepath.Join(f.root, filepath.FromSlash(key)) }

func (f *files) create(ctx context.Context, key string) (io.WriteCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, wrap(err, "create", key)
	}
	name := f.path(key)
	folder := filepath.Dir(name)
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return nil, wrap(err, "create", key)
	}
	file, err := os.CreateTemp(folder, unfinished+"*")
	if err != nil {
		return nil, wrap(err, "create", key)
	}
	return &fileWriter{ctx: ctx, file: file, name: name, key: key}, nil
}

type fileWriter struct {
	ctx  context.Context
	file *os.File
	// name is the path that the object gets when it is whole.
	name string
	key  string
}

func (w *fileWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, wrap(err, "write", w.key)
	}
	n, err := w.file.Write(p)
	return n, wrap(err, "write", w.key)
}

func (w *fileWriter) Close() error {
	if err := w.publish(); err != nil {
		return wrap(errors.Join(err, w.remove()), "create", w.key)
	}
	if err := w.remove(); err != nil {
		return wrap(err, "create", w.key)
	}
	// The new name survives a power cut only with its folder.
	return wrap(syncFolder(filepath.Dir(w.name)), "create", w.key)
}

// publish links a whole file to its name, unless the context has ended.
func (w *fileWriter) publish() error {
	if w.ctx.Err() != nil {
		return errors.Join(context.Cause(w.ctx), w.file.Close())
	}
	if err := w.file.Sync(); err != nil {
		return errors.Join(err, w.file.Close())
	}
	if err := w.file.Close(); err != nil {
		return err
	}
	// The disk may have taken long: the right to write is looked at last.
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return os.Link(w.file.Name(), w.name)
}

// remove drops the unfinished name; one that a sweep took first is gone, too.
func (w *fileWriter) remove() error {
	if err := os.Remove(w.file.Name()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func syncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Sweep removes what writers that were killed left in a backup's folder. It
// also breaks those that still write there: their objects never appear. Stores
// that keep unfinished uploads out of sight need none and do nothing.
func (s *Store) Sweep(ctx context.Context, backup string) error {
	folder, err := s.backupFolder(backup)
	if err != nil || s.files == nil {
		return err
	}
	entries, err := os.ReadDir(s.files.path(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return wrap(err, "sweep", folder)
	}
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return wrap(err, "sweep", folder)
		}
		if !strings.HasPrefix(entry.Name(), unfinished) {
			continue
		}
		if err := os.Remove(filepath.Join(s.files.path(folder), entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sweep %s: %w", folder, err)
		}
	}
	return nil
}
