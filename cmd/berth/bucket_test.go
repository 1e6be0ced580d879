package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/berth-backup/berth/objectstore"
)

// bucket is an S3 bucket in this process with a barrier before it.
type bucket struct {
	*barrier
	url string
}

func newBucket(t *testing.T) *bucket {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("archives"); err != nil {
		t.Fatal(err)
	}
	b := &bucket{barrier: &barrier{server: gofakes3.New(backend).Server()}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	query := url.Values{"endpoint": {server.URL}, "use_path_style": {"true"}, "region": {"us-east-1"}}
	b.url = "s3://archives?" + query.Encode()
	return b
}

// artefacts are all objects of a backup of the default cluster.
func (b *bucket) artefacts(t *testing.T, backup string) map[string]string {
	t.Helper()
	store, err := objectstore.Open(t.Context(), b.url, "default")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	names, err := store.List(t.Context(), backup)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]string{}
	for _, name := range names {
		r, err := store.Read(t.Context(), backup, name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		_ = r.Close()
		if err != nil {
			t.Fatal(err)
		}
		objects[name] = string(text)
	}
	return objects
}

// writeOf is the request that writes an object.
func writeOf(object string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/"+object)
	}
}
