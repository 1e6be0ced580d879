package backup_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/worker/backup"
)

// recorded is what the row of a backup that was taken says.
func recorded(r berth.Run, taken *backup.Taken) backup.Recorded {
	return backup.Recorded{ID: r.ID, Name: r.Name, Artifacts: taken.Outcome.Artifacts, Kinds: taken.Outcome.Kinds}
}

func (f *fixture) verify(want backup.Recorded) backup.Verified {
	f.Helper()
	found, err := backup.Verify(f.Context(), f.store, want)
	if err != nil {
		f.Fatal(err)
	}
	return found
}

// change replaces an object of the store.
func (f *fixture) change(name string, to func([]byte) []byte) {
	f.Helper()
	body := to(bytes.Clone(f.object(name)))
	f.remove(name)
	f.put(name, string(body))
}

// Whatever is not as it was written is found: in each object of the backup.
func TestVerifyFindsWhatChanged(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *fixture{"files": newFixture, "S3": newFixtureOnS3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			ns := f.namespace("verify")
			f.apply("namespaced.yaml", ns)
			r := run(ns)
			taken := f.takeAndPublish(r)
			want := recorded(r, taken)
			good := f.verify(want)
			if len(good.Differences) > 0 || good.Objects != len(whole) || good.Items != taken.Outcome.Progress.ItemsBackedUp || len(want.Kinds) < 10 {
				t.Fatalf("a whole backup is verified as %+v", good)
			}
			differs := func(what, part string) {
				t.Helper()
				found := f.verify(want).Differences
				if !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, part) }) {
					t.Errorf("%s: the differences are %q, want one with %q", what, found, part)
				}
			}
			for _, object := range whole {
				was := f.object(object)
				restore := func() { f.change(object, func([]byte) []byte { return was }) }
				if object != "velero-backup.json" {
					f.change(object, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
					differs("a bit of "+object, object)
					f.change(object, func([]byte) []byte { return was[:len(was)-1] })
					differs("a shorter "+object, object+" has")
					restore()
				}
				f.remove(object)
				differs("no "+object, object+" is missing")
				f.put(object, string(was))
			}
			f.change("velero-backup.json", func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(r.ID.String()), []byte("another")) })
			differs("another's velero-backup.json", `of the backup "another"`)
			f.change("velero-backup.json", func(b []byte) []byte { return b[:len(b)/2] })
			differs("half a velero-backup.json", "cannot be read")
		})
	}
}

// An archive that is whole and holds something else than was backed up is found,
// too, where whoever changed it changed the checksums.
func TestVerifyReadsTheArchive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ns := f.namespace("forged")
	f.configMaps(ns, 3)
	r := run(ns)
	want := recorded(r, f.takeAndPublish(r))
	good := f.object("nightly.tar.gz")
	place := "resources/configmaps/namespaces/" + ns + "/config-00001.json"
	versioned := "resources/configmaps/v1-preferredversion/namespaces/" + ns + "/config-00001.json"
	for name, test := range map[string]struct {
		forge func(files map[string]string)
		want  string
	}{
		"an object less":       {func(files map[string]string) { delete(files, place); delete(files, versioned) }, "3 of v1/ConfigMap, the archive has 2"},
		"a place less":         {func(files map[string]string) { delete(files, versioned) }, "two places of an object differ"},
		"another object":       {func(files map[string]string) { files[place] = strings.Replace(files[place], "config-00001", "x", 1) }, "it holds " + ns + "/x"},
		"no JSON":              {func(files map[string]string) { files[place] = "{" }, "unexpected end of JSON"},
		"no version":           {func(files map[string]string) { delete(files, "metadata/version") }, "format 1.1.0"},
		"an object of no kind": {func(files map[string]string) { files[place] = `{"metadata":{"name":"config-00001"}}` }, "no apiVersion"},
	} {
		files := map[string]string{}
		for path, body := range f.files() {
			files[path] = string(body)
		}
		test.forge(files)
		f.change("nightly.tar.gz", func([]byte) []byte { return packed(t, files) })
		found := f.verify(want).Differences
		if !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, test.want) }) {
			t.Errorf("%s: the differences are %q, want one with %q", name, found, test.want)
		}
		f.change("nightly.tar.gz", func([]byte) []byte { return good })
	}
	if found := f.verify(want).Differences; len(found) > 0 {
		t.Errorf("the good archive again: %q", found)
	}
}

func packed(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var to bytes.Buffer
	compressed := gzip.NewWriter(&to)
	w := tar.NewWriter(compressed)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: path, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(files[path]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[path]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

// What a former attempt published is adopted with all that its row has to say.
func TestAnAdoptedBackupTellsWhatItHolds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ns := f.namespace("adopted")
	f.configMaps(ns, 3)
	r := run(ns)
	first := f.takeAndPublish(r)
	again := f.take(backup.Job{Run: nextAttempt(r)})
	want := first.Outcome
	want.Progress.Bytes = 0 // which no object of the store tells
	if diff := cmp.Diff(want, again.Outcome); !again.Adopted || diff != "" {
		t.Errorf("adopted: %v (-published +adopted):\n%s", again.Adopted, diff)
	}
	if kinds := fmt.Sprint(again.Outcome.Kinds); kinds != "map[v1/ConfigMap:3 v1/Namespace:1]" {
		t.Errorf("the kinds are %s", kinds)
	}
}
