package backup_test

import (
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/berth-backup/berth/objectstore"
)

// newFixtureOnS3 is a fixture whose store is a bucket.
func newFixtureOnS3(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	if err := backend.CreateBucket("archives"); err != nil {
		t.Fatal(err)
	}
	query := url.Values{"endpoint": {server.URL}, "use_path_style": {"true"}, "region": {"us-east-1"}}
	var err error
	if f.store, err = objectstore.Open(t.Context(), "s3://archives?"+query.Encode(), "east"); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestABackupGoesToS3(t *testing.T) {
	t.Parallel()
	f := newFixtureOnS3(t)
	namespace := f.namespace("s3")
	f.configMap(namespace, "x", nil)
	r := run(namespace)
	f.takeAndPublish(r)
	if got := f.storeHolds(); !slices.Equal(got, whole) {
		t.Errorf("the store holds %q", got)
	}
	if names := f.configMapsOf(namespace); !slices.Equal(names, []string{"x"}) {
		t.Errorf("the archive holds the ConfigMaps %q", names)
	}
	if taken := f.takeAndPublish(nextAttempt(r)); !taken.Adopted {
		t.Error("not adopted")
	}
}
