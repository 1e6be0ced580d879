package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api/client"
	"github.com/berth-backup/berth/db/dbtest"
	"github.com/berth-backup/berth/deploy"
	"github.com/berth-backup/berth/internal/devenv"
)

// house is what the processes of one test share: a database, a way to the API
// server, a place for archives, and a Kubernetes namespace for Backup objects.
type house struct {
	*testing.T
	database *dbtest.Database
	gate     *gate
	// objects reads and makes objects past the gate.
	objects dynamic.Interface
	velero  string
	data    string
	// environment is that of every process.
	environment []string
	// api asks the server, once there is one.
	api *client.ClientWithResponses
	url string
}

var (
	backupObjects   = schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backups"}
	definitions     = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	configMaps      = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets         = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	shortLeaseFlags = []string{"--lease-ttl", "6s", "--lease-renew", "1s", "--lease-margin", "2s", "--lease-grace", "1s", "--reap-interval", "200ms"}
)

// asker does not wait for ever.
var asker = &http.Client{Timeout: patience}

func newHouse(t *testing.T) *house {
	t.Helper()
	k := devenv.TestKubernetes(t)
	h := &house{T: t, database: dbtest.New(t), gate: newGate(t, k.Config), data: filepath.Join(t.TempDir(), "data")}
	var err error
	if h.objects, err = dynamic.NewForConfig(k.Config); err != nil {
		t.Fatal(err)
	}
	h.defineBackups()
	h.velero = devenv.TestNamespace(t, k, "velero")
	h.environment = []string{"BERTH_DATABASE_URL=" + h.database.URL, "BERTH_DATA=" + h.data}
	return h
}

// defineBackups makes the API server serve Backup objects.
func (h *house) defineBackups() {
	h.Helper()
	var definition unstructured.Unstructured
	if err := yaml.Unmarshal(deploy.BackupDefinition, &definition.Object); err != nil {
		h.Fatal(err)
	}
	_, err := h.objects.Resource(definitions).Create(h.Context(), &definition, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		h.Fatal(err)
	}
	await(h.T, "Backup objects are served", func() bool {
		_, err := h.objects.Resource(backupObjects).List(h.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	})
}

// startServer starts berth server and waits until it serves.
func (h *house) startServer(args ...string) *process {
	h.Helper()
	p := startProcess(h.T, h.environment, append([]string{"server", "--listen", "127.0.0.1:0"}, args...)...)
	h.url = "http://" + p.awaitOutput(`msg=serving address=(\S+)`)
	var err error
	if h.api, err = client.NewClientWithResponses(h.url, client.WithHTTPClient(asker)); err != nil {
		h.Fatal(err)
	}
	return p
}

// startWorker starts berth worker, two backups at once.
func (h *house) startWorker(args ...string) *process {
	h.Helper()
	return startProcess(h.T, append(h.environment, "KUBECONFIG="+h.gate.kubeconfig),
		append([]string{"worker", "--velero-namespace", h.velero, "--concurrent-backups", "2"}, args...)...)
}

// workerID waits until a worker works and gives its id.
func (p *process) workerID() string {
	p.t.Helper()
	return p.awaitOutput(`msg=working .*worker=(\S+)`)
}

// namespace makes a namespace with a Secret and so many ConfigMaps.
func (h *house) namespace(prefix string, maps int) string {
	h.Helper()
	name := devenv.TestNamespace(h.T, devenv.TestKubernetes(h.T), prefix)
	h.create(secrets, name, map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "password"}})
	for i := range maps {
		h.create(configMaps, name, map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprintf("settings-%d", i)},
			"data": map[string]any{"text": strings.Repeat("x", 1000)},
		})
	}
	return name
}

func (h *house) create(resource schema.GroupVersionResource, namespace string, object map[string]any) {
	h.Helper()
	_, err := h.objects.Resource(resource).Namespace(namespace).Create(h.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	if err != nil {
		h.Fatal(err)
	}
}

// post asks for a backup of these namespaces.
func (h *house) post(name string, namespaces ...string) uuid.UUID {
	h.Helper()
	answer, err := h.api.CreateBackupWithResponse(h.Context(), nil, client.BackupRequest{
		Name: &name, Labels: &map[string]string{"team": "shop"}, Annotations: &map[string]string{"ticket": "4711"},
		Spec: berth.Spec{IncludedNamespaces: namespaces},
	})
	if err != nil {
		h.Fatal(err)
	}
	if answer.JSON201 == nil {
		h.Fatalf("POST /backups: %s: %s", answer.HTTPResponse.Status, answer.Body)
	}
	return answer.JSON201.ID
}

func (h *house) get(id uuid.UUID) client.Backup {
	h.Helper()
	answer, err := h.api.GetBackupWithResponse(h.Context(), id)
	if err != nil {
		h.Fatal(err)
	}
	if answer.JSON200 == nil {
		h.Fatalf("GET /backups/%s: %s: %s", id, answer.HTTPResponse.Status, answer.Body)
	}
	return *answer.JSON200
}

// awaitPhase waits until the backup is in that phase; another terminal one is
// an error.
func (h *house) awaitPhase(id uuid.UUID, phase berth.Phase) client.Backup {
	h.Helper()
	var b client.Backup
	await(h.T, fmt.Sprintf("backup %s is %s", id, phase), func() bool {
		b = h.get(id)
		if b.Phase.Terminal() && b.Phase != phase {
			h.Fatalf("backup %s is %s: %s", b.Name, b.Phase, value(b.Message))
		}
		return b.Phase == phase
	})
	return b
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// connect opens a session of the test's own.
func (h *house) connect() *pgx.Conn {
	h.Helper()
	conn, err := pgx.Connect(h.Context(), h.database.URL)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// execute runs one statement on the test's database.
func (h *house) execute(statement string) {
	h.Helper()
	if _, err := h.connect().Exec(h.Context(), statement); err != nil {
		h.Fatal(err)
	}
}

// event is a row of the event table.
type event struct {
	At        time.Time
	FromPhase berth.Phase
	ToPhase   berth.Phase
	Reason    string
	Worker    string
	Fence     int64
	Attempt   int
}

// events are a backup's transitions in order.
func (h *house) events(id uuid.UUID) []event {
	h.Helper()
	rows, err := h.connect().Query(h.Context(), `select at, coalesce(from_phase, '') as from_phase, to_phase, reason, worker, fence, attempt from events
		where seq = (select seq from backups where id = $1) and from_phase is distinct from to_phase order by id`, id)
	if err != nil {
		h.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[event])
	if err != nil {
		h.Fatal(err)
	}
	return found
}

// lives names the phases that the events went through, with the attempts of
// the admissions and the reasons of the ways back.
func lives(events []event) []string {
	var lives []string
	for _, e := range events {
		switch to := e.ToPhase; {
		case to == berth.PhaseReadyToStart:
			lives = append(lives, fmt.Sprintf("%s %d", to, e.Attempt))
		case to == berth.PhaseQueued && e.FromPhase != "":
			lives = append(lives, fmt.Sprintf("%s %s", to, e.Reason))
		default:
			lives = append(lives, string(to))
		}
	}
	return lives
}

// at says when the backup came to a phase for the last time.
func at(events []event, phase berth.Phase) event {
	for _, e := range slices.Backward(events) {
		if e.ToPhase == phase {
			return e
		}
	}
	return event{}
}

// object reads a Backup object; nil where there is none.
func (h *house) object(name string) *unstructured.Unstructured {
	h.Helper()
	object, err := h.objects.Resource(backupObjects).Namespace(h.velero).Get(h.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		h.Fatal(err)
	}
	return object
}

// awaitMirror waits until the Backup object equals what the API answers.
func (h *house) awaitMirror(id uuid.UUID) {
	h.Helper()
	var want, have map[string]any
	await(h.T, "the Backup object equals the API's answer", func() bool {
		b := h.get(id)
		want = statusOf(b)
		object := h.object(b.Name)
		if object == nil {
			return false
		}
		have, _ = object.Object["status"].(map[string]any)
		return fmt.Sprint(have) == fmt.Sprint(want)
	})
}

// statusOf is the status that Velero's users expect of a backup that the API
// shows so.
func statusOf(b client.Backup) map[string]any {
	status := map[string]any{"version": int64(1), "formatVersion": "1.1.0", "phase": string(b.Phase)}
	for field, at := range map[string]*time.Time{
		"startTimestamp": b.StartedAt, "completionTimestamp": b.CompletedAt, "expiration": b.ExpiresAt,
	} {
		if at != nil {
			status[field] = at.UTC().Format(time.RFC3339)
		}
	}
	for field, n := range map[string]int{"errors": b.Errors, "warnings": b.Warnings} {
		if n > 0 {
			status[field] = int64(n)
		}
	}
	if b.Queue != nil && b.Queue.Position != nil {
		status["queuePosition"] = int64(*b.Queue.Position)
	}
	if b.FailureReason != nil {
		status["failureReason"] = *b.FailureReason
	}
	if b.Progress != nil {
		progress := map[string]any{}
		for field, n := range map[string]int{"totalItems": b.Progress.TotalItems, "itemsBackedUp": b.Progress.ItemsBackedUp} {
			if n > 0 {
				progress[field] = int64(n)
			}
		}
		status["progress"] = progress
	}
	return status
}

// artefacts are all files of a backup's folder with their contents.
func (h *house) artefacts(name string) map[string]string {
	h.Helper()
	folder := filepath.Join(h.data, berth.DefaultCluster, "backups", name)
	files := map[string]string{}
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return files
	}
	if err != nil {
		h.Fatal(err)
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was being written, and has its name now
		}
		if err != nil {
			h.Fatal(err)
		}
		files[entry.Name()] = string(text)
	}
	return files
}

// wholeBackup are the names of the files of a backup that is complete.
func wholeBackup(name string) []string {
	return []string{
		name + "-berth.json", name + "-itemoperations.json.gz", name + "-logs.gz", name + "-podvolumebackups.json.gz",
		name + "-resource-list.json.gz", name + "-results.gz", name + "-volumeinfo.json.gz", name + "-volumesnapshots.json.gz",
		name + ".tar.gz", "velero-backup.json",
	}
}

// checkArchive says whether the store holds one complete backup, by the attempt
// with that fence.
func (h *house) checkArchive(name string, attempt int, fence int64) {
	h.Helper()
	files := h.artefacts(name)
	if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, wholeBackup(name)) {
		h.Errorf("the folder of backup %s holds %q", name, names)
	}
	var record berth.VeleroBackup
	if err := json.Unmarshal([]byte(files["velero-backup.json"]), &record); err != nil {
		h.Fatalf("velero-backup.json: %v", err)
	}
	annotations := record.Metadata.Annotations
	if annotations[berth.AnnotationFence] != fmt.Sprint(fence) || annotations[berth.AnnotationAttempt] != fmt.Sprint(attempt) {
		h.Errorf("velero-backup.json is by attempt %s with fence %s, want %d and %d",
			annotations[berth.AnnotationAttempt], annotations[berth.AnnotationFence], attempt, fence)
	}
}
