// Package objectstore is where archives go: a folder of objects per backup on
// a file system or in an S3 bucket. It knows two things about an object that
// is written: it becomes visible whole or not at all, and it never takes the
// place of another.
package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/s3blob" // opens s3:// URLs
)

// DefaultTimeout bounds one request to a store. It is shorter than the time
// that a lost lease leaves before another worker may start (margin and grace,
// 25 s by default), so that nothing written under a lease outlives it.
const DefaultTimeout = 20 * time.Second

// Store is one storage location: the folders of backups below a prefix of a
// bucket. It may be used by any number of goroutines.
type Store struct {
	bucket *blob.Bucket
	// folder is that of all backups: "<prefix>/backups".
	folder  string
	timeout time.Duration
	// files publishes on a file system; nil for every other kind of store.
	files *files
}

// Option changes how Open sets a store up.
type Option func(*Store)

// WithTimeout bounds each request, or each part of a longer transfer, to d
// instead of DefaultTimeout.
func WithTimeout(d time.Duration) Option { return func(s *Store) { s.timeout = d } }

// Open opens the store at a URL of gocloud.dev/blob: file:///folder, which is
// made where it is missing, or s3://bucket with its query parameters (endpoint,
// region, use_path_style, …) and credentials from the environment. Objects
// stand under "<prefix>/backups/"; an empty prefix means the bucket's root.
func Open(ctx context.Context, storeURL, prefix string, options ...Option) (*Store, error) {
	location, err := url.Parse(storeURL)
	if err != nil {
		return nil, fmt.Errorf("storage URL: %w", withoutURL(err))
	}
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	s := &Store{folder: path.Join(prefix, "backups"), timeout: DefaultTimeout}
	for _, option := range options {
		option(s)
	}
	if s.timeout <= 0 {
		return nil, fmt.Errorf("a store's time-out must be positive, not %s", s.timeout)
	}
	switch location.Scheme {
	case "file":
		return s.openFiles(location)
	case "s3":
		if s.bucket, err = blob.OpenBucket(ctx, storeURL); err != nil {
			return nil, fmt.Errorf("open the bucket %s: %w", location.Host, err)
		}
		return s, nil
	}
	return nil, fmt.Errorf("storage URL: the scheme %q is not supported; use file:// or s3://", location.Scheme)
}

func (s *Store) openFiles(location *url.URL) (*Store, error) {
	root, err := rootOf(location)
	if err != nil {
		return nil, err
	}
	s.files = &files{root: root}
	s.bucket, err = fileblob.OpenBucket(root, &fileblob.Options{
		CreateDir: true, DirFileMode: folderMode, NoTempDir: true, Metadata: fileblob.MetadataDontWrite,
	})
	if err != nil {
		return nil, fmt.Errorf("open the folder of a file store: %w", err)
	}
	return s, nil
}

// withoutURL drops the URL from a parse error, since it may hold a secret.
func withoutURL(err error) error {
	if parseError, ok := errors.AsType[*url.Error](err); ok {
		return parseError.Err
	}
	return err
}

// Close lets go of the bucket.
func (s *Store) Close() error { return s.bucket.Close() }

// Read opens an object of a backup. It answers ErrNotFound where there is
// none. Each read, not the whole, is bounded by the store's time-out.
func (s *Store) Read(ctx context.Context, backup, object string) (io.ReadCloser, error) {
	key, err := s.key(backup, object)
	if err != nil {
		return nil, err
	}
	watch := newWatch(ctx, s.timeout)
	done := watch.begin()
	reader, err := s.bucket.NewReader(watch.ctx, key, nil)
	done()
	if err != nil {
		err = watch.explain(err)
		watch.end()
		return nil, wrap(err, "read", key)
	}
	return &watchedReader{reader: reader, watch: watch, key: key}, nil
}

// Size is an object's length in bytes; ErrNotFound where there is none.
func (s *Store) Size(ctx context.Context, backup, object string) (int64, error) {
	key, err := s.key(backup, object)
	if err != nil {
		return 0, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	attributes, err := s.bucket.Attributes(ctx, key)
	if err != nil {
		return 0, wrap(err, "look up", key)
	}
	return attributes.Size, nil
}

// List names a backup's objects, in no order. A folder that does not exist is
// empty.
func (s *Store) List(ctx context.Context, backup string) ([]string, error) {
	folder, err := s.backupFolder(backup)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var names []string
	objects := s.bucket.List(&blob.ListOptions{Prefix: folder + "/"})
	for {
		object, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, wrap(err, "list", folder)
		}
		name := strings.TrimPrefix(object.Key, folder+"/")
		if checkName(name) == nil {
			names = append(names, name)
		}
	}
}

// Delete removes an object. One that is not there counts as removed.
func (s *Store) Delete(ctx context.Context, backup, object string) error {
	key, err := s.key(backup, object)
	if err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := wrap(s.bucket.Delete(ctx, key), "delete", key); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.timeout, errTimeout)
}
