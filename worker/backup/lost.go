package backup

import (
	"context"
	"errors"
	"io"
	"io/fs"
)

// Reasons of an attempt that is lost to circumstances: another one may fare better.
const (
	// ReasonStorage: the object store refuses, hangs or is away.
	ReasonStorage = "StorageLost"
	// ReasonCluster: the API server does not answer.
	ReasonCluster = "ClusterLost"
)

// lost is an error of circumstances with its reason.
type lost struct {
	reason string
	error
}

func (l lost) Reason() string { return l.reason }
func (l lost) Unwrap() error  { return l.error }

// reasoned gives an error of Take or Publish the reason that it stands for.
func reasoned(err error) error {
	if errors.Is(err, errNoAnswer) {
		return lost{ReasonCluster, err}
	}
	return err
}

// candid is a store whose failures say that they are the store's.
type candid struct{ Store }

// ofStore marks an error that is no word of the store's vocabulary.
func ofStore(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return lost{ReasonStorage, err}
}

func (s candid) Put(ctx context.Context, backup, object string, body []byte) error {
	return ofStore(ctx, s.Store.Put(ctx, backup, object, body))
}

func (s candid) Create(ctx context.Context, backup, object string) (io.WriteCloser, error) {
	w, err := s.Store.Create(ctx, backup, object)
	if err != nil {
		return nil, ofStore(ctx, err)
	}
	return candidWriter{ctx, w}, nil
}

func (s candid) Read(ctx context.Context, backup, object string) (io.ReadCloser, error) {
	r, err := s.Store.Read(ctx, backup, object)
	if err != nil {
		return nil, ofStore(ctx, err)
	}
	return candidReader{ctx, r}, nil
}

func (s candid) Size(ctx context.Context, backup, object string) (int64, error) {
	size, err := s.Store.Size(ctx, backup, object)
	return size, ofStore(ctx, err)
}

func (s candid) List(ctx context.Context, backup string) ([]string, error) {
	names, err := s.Store.List(ctx, backup)
	return names, ofStore(ctx, err)
}

func (s candid) Delete(ctx context.Context, backup, object string) error {
	return ofStore(ctx, s.Store.Delete(ctx, backup, object))
}

func (s candid) Sweep(ctx context.Context, backup string) error {
	return ofStore(ctx, s.Store.Sweep(ctx, backup))
}

type candidWriter struct {
	ctx context.Context
	io.WriteCloser
}

func (w candidWriter) Write(p []byte) (int, error) {
	n, err := w.WriteCloser.Write(p)
	return n, ofStore(w.ctx, err)
}

func (w candidWriter) Close() error { return ofStore(w.ctx, w.WriteCloser.Close()) }

type candidReader struct {
	ctx context.Context
	io.ReadCloser
}

func (r candidReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		return n, err
	}
	return n, ofStore(r.ctx, err)
}
