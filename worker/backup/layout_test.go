package backup_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/worker/backup"
)

// The objects of a whole backup.
var whole = []string{
	"nightly-berth.json", "nightly-itemoperations.json.gz", "nightly-logs.gz", "nightly-podvolumebackups.json.gz",
	"nightly-resource-list.json.gz", "nightly-results.gz", "nightly-volumeinfo.json.gz", "nightly-volumesnapshots.json.gz",
	"nightly.tar.gz", "velero-backup.json",
}

func TestTheStoreHoldsWhatVeleroExpects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	namespace := f.namespace("layout")
	f.configMap(namespace, "b", nil)
	f.configMap(namespace, "a", nil)
	r := run(namespace)
	r.Spec.IncludedNamespaceScopedResources = []string{"configmaps"}
	taken := f.take(backup.Job{Run: r})

	if got := f.storeHolds(); !slices.Equal(got, slices.DeleteFunc(slices.Clone(whole), func(s string) bool { return s == "velero-backup.json" })) {
		t.Errorf("before Publish the store holds %q", got)
	}
	row := rowOf(r, taken.Outcome)
	if err := taken.Publish(t.Context(), row, "velero"); err != nil {
		t.Fatal(err)
	}
	if got := f.storeHolds(); !slices.Equal(got, whole) {
		t.Errorf("after Publish the store holds %q", got)
	}
	folder := filepath.Join(f.root, "east", "backups")
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 || entries[0].Name() != "nightly" {
		t.Errorf("%s holds %v, %v", folder, entries, err)
	}

	plain := []string{
		"resources/configmaps/namespaces/" + namespace + "/a.json",
		"resources/configmaps/namespaces/" + namespace + "/b.json",
		"resources/namespaces/cluster/" + namespace + ".json",
	}
	if diff := cmp.Diff(plain, f.plainPaths()); diff != "" {
		t.Errorf("paths in the archive (-want +got):\n%s", diff)
	}
	files := f.files()
	for _, path := range plain {
		resource, rest, _ := strings.Cut(strings.TrimPrefix(path, "resources/"), "/")
		versioned := "resources/" + resource + "/v1-preferredversion/" + rest
		if string(files[versioned]) != string(files[path]) {
			t.Errorf("%s does not hold what %s does", versioned, path)
		}
	}
	if len(files) != 2*len(plain)+1 {
		t.Errorf("the archive holds %d files", len(files))
	}

	for artefact, want := range map[string]string{
		"nightly-results.gz":               `{"errors":{},"warnings":{}}`,
		"nightly-resource-list.json.gz":    `{"v1/ConfigMap":["` + namespace + `/a","` + namespace + `/b"],"v1/Namespace":["` + namespace + `"]}`,
		"nightly-volumeinfo.json.gz":       "[]",
		"nightly-itemoperations.json.gz":   "[]",
		"nightly-podvolumebackups.json.gz": "[]",
		"nightly-volumesnapshots.json.gz":  "[]",
	} {
		if got := string(f.gunzipped(artefact)); got != want+"\n" {
			t.Errorf("%s holds %q, want %q", artefact, got, want)
		}
	}
	if log := string(f.gunzipped("nightly-logs.gz")); !strings.Contains(log, "backup started") || !strings.HasSuffix(log, "\n") {
		t.Errorf("the log reads %q", log)
	}
	if got, want := string(f.object("nightly-berth.json")), `{"uid":"`+r.ID.String()+`","attempt":1,"fence":7}`; got != want {
		t.Errorf("the owner is %s, want %s", got, want)
	}
}

func TestTheRecordProvesWhatWasWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := run(f.namespace("record"))
	r.Attempt, r.Fence = 3, 12
	taken := f.takeAndPublish(r)

	var record berth.VeleroBackup
	if err := json.Unmarshal(f.object("velero-backup.json"), &record); err != nil {
		t.Fatal(err)
	}
	if record.APIVersion != "velero.io/v1" || record.Kind != "Backup" || record.Metadata.Name != "nightly" || record.Metadata.Namespace != "velero" {
		t.Errorf("the record is %s %s %s/%s", record.APIVersion, record.Kind, record.Metadata.Namespace, record.Metadata.Name)
	}
	progress := taken.Outcome.Progress
	if s := record.Status; s.Phase != berth.PhaseCompleted || s.FormatVersion != "1.1.0" || s.Version != 1 ||
		s.Progress.ItemsBackedUp != progress.ItemsBackedUp || s.CompletionTimestamp == nil || s.Expiration == nil {
		t.Errorf("the record's status is %+v", s)
	}
	annotations := record.Metadata.Annotations
	for key, want := range map[string]string{
		berth.AnnotationID: r.ID.String(), berth.AnnotationFence: "12", berth.AnnotationAttempt: "3",
		"velero.io/source-cluster-k8s-gitversion":    taken.ServerVersion.GitVersion,
		"velero.io/source-cluster-k8s-major-version": "1",
		"velero.io/source-cluster-k8s-minor-version": taken.ServerVersion.Minor,
	} {
		if annotations[key] != want || want == "" {
			t.Errorf("annotation %s is %q, want %q", key, annotations[key], want)
		}
	}
	sums := 0
	for key := range annotations {
		// Otherwise the cluster that imports the backup refuses it.
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			t.Errorf("annotation %s: %v", key, problems)
		}
		if strings.HasPrefix(key, berth.AnnotationSHA256Prefix) {
			sums++
		}
	}
	if sums != len(whole)-1 || sums != len(taken.Artefacts) {
		t.Errorf("%d checksums for %d artefacts and %d objects", sums, len(taken.Artefacts), len(whole))
	}
	for _, a := range taken.Artefacts {
		body := f.object(a.Object)
		sum := sha256.Sum256(body)
		if hex.EncodeToString(sum[:]) != a.SHA256 || annotations[berth.AnnotationSHA256Prefix+a.Name] != a.SHA256 || int64(len(body)) != a.Size {
			t.Errorf("%s: %+v does not describe the object of %d bytes, annotation %s", a.Object, a, len(body), annotations[berth.AnnotationSHA256Prefix+a.Name])
		}
	}
}

func TestAListOfManyPagesIsWholeAndProgressGrows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	namespace := f.namespace("pages")
	f.configMaps(namespace, 1203)
	r := run(namespace)
	r.Spec.IncludedResources = []string{"cm"}

	var mu sync.Mutex
	var seen []berth.Progress
	taken := f.take(backup.Job{Run: r, Progress: func(p berth.Progress) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, p)
	}})
	if paths := f.plainPaths(); len(paths) != 1203 {
		t.Errorf("%d objects are in the archive", len(paths))
	}
	if p := taken.Outcome.Progress; p.ItemsBackedUp != 1203 || p.TotalItems != 1203 || p.Bytes < 1203*100 {
		t.Errorf("the outcome's progress is %+v", p)
	}
	for i, p := range seen {
		if p.ItemsBackedUp > p.TotalItems {
			t.Fatalf("%d of %d objects backed up", p.ItemsBackedUp, p.TotalItems)
		}
		if i > 0 && (p.ItemsBackedUp < seen[i-1].ItemsBackedUp || p.Bytes < seen[i-1].Bytes) {
			t.Fatalf("progress went back from %+v to %+v", seen[i-1], p)
		}
	}
	// The server says with the first page how much is left.
	if first := seen[0]; first.TotalItems < 703 {
		t.Errorf("the first total is %d", first.TotalItems)
	}
}

func TestFilesOfTheArchiveAreDated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	before := time.Now().Truncate(time.Second)
	f.take(backup.Job{Run: run(f.namespace("dated"))})
	for _, header := range f.headers() {
		if header.ModTime.Before(before) || header.ModTime.After(time.Now()) {
			t.Errorf("%s is dated %s", header.Name, header.ModTime)
		}
	}
}
