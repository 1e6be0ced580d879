package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.uber.org/goleak"

	"github.com/berth-backup/berth/objectstore"
)

func TestMain(m *testing.M) {
	// The AWS SDK takes credentials from the environment.
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1",
		"AWS_EC2_METADATA_DISABLED": "true",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m,
		// Idle connections of the AWS SDK's own HTTP client.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// eachStore runs a test on every kind of store.
func eachStore(t *testing.T, test func(t *testing.T, s *objectstore.Store)) {
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		test(t, openFiles(t, t.TempDir()))
	})
	t.Run("s3", func(t *testing.T) {
		t.Parallel()
		test(t, openS3(t))
	})
}

func openFiles(t *testing.T, folder string) *objectstore.Store {
	return open(t, "file://"+filepath.ToSlash(folder))
}

func openS3(t *testing.T) *objectstore.Store {
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	if err := backend.CreateBucket("archives"); err != nil {
		t.Fatal(err)
	}
	query := url.Values{"endpoint": {server.URL}, "use_path_style": {"true"}, "region": {"us-east-1"}}
	return open(t, "s3://archives?"+query.Encode())
}

func open(t *testing.T, storeURL string) *objectstore.Store {
	s, err := objectstore.Open(t.Context(), storeURL, "prod/east")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestObjectIsWrittenReadListedAndDeleted(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *objectstore.Store) {
		ctx := t.Context()
		if err := s.Put(ctx, "nightly", "velero-backup.json", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(ctx, "nightly-2", "other", nil); err != nil {
			t.Fatal(err)
		}
		// Longer than two parts, so that an upload in parts is tried, too.
		long := bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16)
		w, err := s.Create(ctx, "nightly", "nightly.tar.gz")
		if err != nil {
			t.Fatal(err)
		}
		for chunk := range slices.Chunk(long, 1<<20) {
			if _, err := w.Write(chunk); err != nil {
				t.Fatal(err)
			}
		}
		if names := list(t, s, "nightly"); !slices.Equal(names, []string{"velero-backup.json"}) {
			t.Errorf("before Close the folder shows %q", names)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := read(t, s, "nightly", "nightly.tar.gz"); !bytes.Equal(got, long) {
			t.Errorf("read %d bytes that differ from the %d written", len(got), len(long))
		}
		if size, err := s.Size(ctx, "nightly", "nightly.tar.gz"); err != nil || size != int64(len(long)) {
			t.Errorf("Size = %d, %v; want %d", size, err, len(long))
		}
		if names := list(t, s, "nightly"); !slices.Equal(names, []string{"nightly.tar.gz", "velero-backup.json"}) {
			t.Errorf("the folder shows %q", names)
		}
		for range 2 {
			if err := s.Delete(ctx, "nightly", "nightly.tar.gz"); err != nil {
				t.Errorf("Delete: %v", err)
			}
		}
		if names := list(t, s, "nightly"); !slices.Equal(names, []string{"velero-backup.json"}) {
			t.Errorf("after Delete the folder shows %q", names)
		}
	})
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *objectstore.Store) {
		if _, err := s.Size(t.Context(), "nightly", "x"); !errors.Is(err, objectstore.ErrNotFound) {
			t.Errorf("Size: %v", err)
		}
		if _, err := s.Read(t.Context(), "nightly", "x"); !errors.Is(err, objectstore.ErrNotFound) {
			t.Errorf("Read: %v", err)
		}
		if names := list(t, s, "nightly"); len(names) > 0 {
			t.Errorf("List: %q", names)
		}
	})
}

func TestAnObjectNeverTakesThePlaceOfAnother(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *objectstore.Store) {
		if err := s.Put(t.Context(), "nightly", "x", []byte("first")); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), "nightly", "x", []byte("second")); !errors.Is(err, objectstore.ErrExists) {
			t.Errorf("the second Put: %v, want ErrExists", err)
		}
		if got := read(t, s, "nightly", "x"); string(got) != "first" {
			t.Errorf("the object holds %q", got)
		}
	})
}

func TestOfManyWritersOfOneNameExactlyOneWins(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *objectstore.Store) {
		const writers, rounds = 8, 20
		for round := range rounds {
			object := fmt.Sprintf("object-%d", round)
			var winners atomic.Int32
			var winner atomic.Value
			var group sync.WaitGroup
			start := make(chan struct{})
			for writer := range writers {
				group.Go(func() {
					<-start
					body := fmt.Sprintf("writer %d", writer)
					switch err := s.Put(t.Context(), "nightly", object, []byte(body)); {
					case err == nil:
						winners.Add(1)
						winner.Store(body)
					case !errors.Is(err, objectstore.ErrExists):
						t.Error(err)
					}
				})
			}
			close(start)
			group.Wait()
			if winners.Load() != 1 {
				t.Fatalf("%d writers were told that they wrote %s", winners.Load(), object)
			}
			if got := string(read(t, s, "nightly", object)); got != winner.Load() {
				t.Fatalf("%s holds the words of %q, but %q won", object, got, winner.Load())
			}
		}
	})
}

func TestAnAbortedWriterLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"nothing written": 0, "small": 100, "parts on their way": 20 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, s *objectstore.Store) {
				ctx, cancel := context.WithCancel(t.Context())
				w, err := s.Create(ctx, "nightly", "x")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write(make([]byte, size)); err != nil {
					t.Fatal(err)
				}
				cancel()
				if err := w.Close(); !errors.Is(err, context.Canceled) {
					t.Errorf("Close: %v, want that the context has ended", err)
				}
				if names := list(t, s, "nightly"); len(names) > 0 {
					t.Errorf("the folder shows %q", names)
				}
				if err := s.Put(t.Context(), "nightly", "x", nil); err != nil {
					t.Errorf("the name is not free: %v", err)
				}
			})
		})
	}
}

func TestFilesOfKilledWritersAreHiddenAndSwept(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := openFiles(t, root)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// A writer that never comes to Close is what a killed process leaves.
	killed, err := s.Create(ctx, "nightly", "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := killed.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "prod", "east", "backups", "nightly")
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Fatalf("the folder holds %v, %v; want the unfinished file", entries, err)
	}
	if names := list(t, s, "nightly"); len(names) > 0 {
		t.Errorf("List shows %q", names)
	}
	if err := s.Put(t.Context(), "nightly", "kept", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context(), "nightly"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 || entries[0].Name() != "kept" {
		t.Errorf("after the sweep the folder holds %v, %v", entries, err)
	}
	if err := killed.Close(); err == nil {
		t.Error("a writer whose file was swept came to an end without an error")
	}
	if err := s.Sweep(t.Context(), "never-written"); err != nil {
		t.Error(err)
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "data")
	s := openFiles(t, root)
	if err := s.Put(t.Context(), "nightly", "x", nil); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(root, func(name string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", entry.Name(), info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNamesCannotLeaveTheirFolder(t *testing.T) {
	t.Parallel()
	s := openFiles(t, t.TempDir())
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, ".hidden", "a b", "a\x00"} {
		if err := s.Put(t.Context(), name, "x", nil); err == nil {
			t.Errorf("Put to the backup %q passed", name)
		}
		if err := s.Put(t.Context(), "nightly", name, nil); err == nil {
			t.Errorf("Put of the object %q passed", name)
		}
	}
}

func TestOpenRefusesWhatItCannotServe(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ url, prefix string }{
		{"gopher://x", ""}, {"", ""}, {"file://", ""}, {"s3://b?nonsense=1", ""}, {"file://%zz", ""},
		{"mem://", "../up"}, {"mem://", "/rooted"}, {"mem://", "ends/"}, {"mem://", "a b"},
	} {
		if s, err := objectstore.Open(t.Context(), test.url, test.prefix); err == nil {
			t.Errorf("Open(%q, %q) passed", test.url, test.prefix)
			_ = s.Close()
		}
	}
	if _, err := objectstore.Open(t.Context(), "file:///secret\x7f", ""); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error repeats the URL: %v", err)
	}
	if _, err := objectstore.Open(t.Context(), "file:///x", "", objectstore.WithTimeout(-1)); err == nil {
		t.Error("a negative time-out passed")
	}
}

func list(t *testing.T, s *objectstore.Store, backup string) []string {
	t.Helper()
	names, err := s.List(t.Context(), backup)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func read(t *testing.T, s *objectstore.Store, backup, object string) []byte {
	t.Helper()
	r, err := s.Read(t.Context(), backup, object)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return body
}
