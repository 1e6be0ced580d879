package devenv

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Bucket is an S3 bucket in this process's memory, for whoever has any keys.
type Bucket struct {
	// URL is that of the bucket, as gocloud.dev/blob reads it.
	URL    string
	server *httptest.Server
}

// StartBucket serves an empty bucket on a free port of 127.0.0.1.
func StartBucket() (*Bucket, error) {
	const name = "archives"
	backend := s3mem.New()
	if err := backend.CreateBucket(name); err != nil {
		return nil, fmt.Errorf("make a bucket: %w", err)
	}
	server := httptest.NewServer(http.Handler(gofakes3.New(backend).Server()))
	query := url.Values{"endpoint": {server.URL}, "use_path_style": {"true"}, "region": {"us-east-1"}}
	return &Bucket{URL: "s3://" + name + "?" + query.Encode(), server: server}, nil
}

// Stop forgets the bucket and all that is in it.
func (b *Bucket) Stop() error {
	b.server.Close()
	return nil
}
