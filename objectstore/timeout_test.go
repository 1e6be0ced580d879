package objectstore_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/berth-backup/berth/objectstore"
)

func TestASilentStoreEndsEachRequestInTime(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(released) })
	query := url.Values{"endpoint": {silent.URL}, "use_path_style": {"true"}, "region": {"us-east-1"}}
	s, err := objectstore.Open(t.Context(), "s3://archives?"+query.Encode(), "", objectstore.WithTimeout(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	for name, request := range map[string]func() error{
		"Put":  func() error { return s.Put(t.Context(), "nightly", "x", []byte("x")) },
		"Size": func() error { _, err := s.Size(t.Context(), "nightly", "x"); return err },
		"List": func() error { _, err := s.List(t.Context(), "nightly"); return err },
		"Read": func() error { _, err := s.Read(t.Context(), "nightly", "x"); return err },
		"Create": func() error {
			w, err := s.Create(t.Context(), "nightly", "x")
			if err != nil {
				return err
			}
			_, err = w.Write([]byte("x"))
			return errors.Join(err, w.Close())
		},
	} {
		err := request()
		if err == nil || errors.Is(err, objectstore.ErrNotFound) || errors.Is(err, objectstore.ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: an error of more than one line: %q", name, err)
		}
	}
}
