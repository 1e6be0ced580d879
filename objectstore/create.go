package objectstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"gocloud.dev/blob"
)

const (
	// partSize and parts bound what an upload keeps in memory: 8 MiB being
	// filled and two on their way. S3 takes 10,000 parts, so that an archive
	// can have 78 GiB.
	partSize = 8 << 20
	parts    = 2
)

// Put creates a small object. It answers ErrExists, and changes nothing, where
// one of that name is there already.
func (s *Store) Put(ctx context.Context, backup, object string, body []byte) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	w, err := s.Create(ctx, backup, object)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, bytes.NewReader(body)); err != nil {
		cancel()
		_ = w.Close() // it aborts; the write's error says why
		return err
	}
	return w.Close()
}

// Create begins an object of any length. It becomes visible, whole, when Close
// returns nil. Close answers ErrExists where another of that name is there by
// then. To abort, end ctx before Close: nothing is visible then. Close must be
// called in any case. Each write, and Close, is bounded by the store's
// time-out.
func (s *Store) Create(ctx context.Context, backup, object string) (io.WriteCloser, error) {
	key, err := s.key(backup, object)
	if err != nil {
		return nil, err
	}
	if s.files != nil {
		return s.files.create(ctx, key)
	}
	watch := newWatch(ctx, s.timeout)
	w, err := s.bucket.NewWriter(watch.ctx, key, &blob.WriterOptions{
		BufferSize: partSize, MaxConcurrency: parts,
		ContentType: contentType(object), DisableContentTypeDetection: true,
		IfNotExist: true,
	})
	if err != nil {
		watch.end()
		return nil, wrap(err, "create", key)
	}
	return &watchedWriter{writer: w, watch: watch, key: key}, nil
}

func contentType(object string) string {
	switch {
	case strings.HasSuffix(object, ".json"):
		return "application/json"
	case strings.HasSuffix(object, ".gz"):
		return "application/gzip"
	}
	return "application/octet-stream"
}

type watchedWriter struct {
	writer *blob.Writer
	watch  *watch
	key    string
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	defer w.watch.begin()()
	n, err := w.writer.Write(p)
	return n, wrap(w.watch.explain(err), "write", w.key)
}

func (w *watchedWriter) Close() error {
	defer w.watch.end()
	defer w.watch.begin()()
	aborted := context.Cause(w.watch.ctx)
	err := w.writer.Close()
	if aborted != nil {
		return fmt.Errorf("create %s: %w", w.key, aborted)
	}
	return wrap(w.watch.explain(err), "create", w.key)
}
