package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
)

func TestABackupGoesToABucket(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	bucket := newBucket(t)
	h.environment = append(h.environment, "BERTH_STORAGE_URL="+bucket.url)
	h.startServer()
	shop := h.namespace("shop", 1)
	// More than fits one request: the archive goes up in parts.
	for i := range 8 {
		noise := make([]byte, 600_000)
		_, _ = rand.Read(noise)
		h.create(configMaps, shop, map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprintf("noise-%d", i)},
			"data": map[string]any{"noise": base64.StdEncoding.EncodeToString(noise)},
		})
	}
	h.startWorker()
	a := h.post("a", shop)
	h.awaitPhase(a, berth.PhaseCompleted)

	objects := bucket.artefacts(t, "a")
	if names := slices.Sorted(maps.Keys(objects)); !slices.Equal(names, wholeBackup("a")) {
		t.Errorf("the bucket holds %q", names)
	}
	if size := len(objects["a.tar.gz"]); size < 9<<20 {
		t.Errorf("the archive has %d bytes, too few to go up in parts", size)
	}
	files := unpack(t, []byte(objects["a.tar.gz"]))
	for i := range 8 {
		if path := fmt.Sprintf("resources/configmaps/namespaces/%s/noise-%d.json", shop, i); len(files[path]) < 800_000 {
			t.Errorf("%s has %d bytes", path, len(files[path]))
		}
	}
	var record berth.VeleroBackup
	if err := json.Unmarshal([]byte(objects["velero-backup.json"]), &record); err != nil || record.Status.Phase != berth.PhaseCompleted {
		t.Errorf("velero-backup.json shows %s, %v", record.Status.Phase, err)
	}
	if len(h.artefacts("a")) > 0 {
		t.Error("there are files beside the bucket")
	}
	saysInOneLine(t, h.startWorker("--storage-url", "s3://elsewhere"), "s3://elsewhere", "not moved")
}

// The last write of an attempt is on its way when its worker falls asleep, and
// arrives when the next attempt has completed.
func TestAWriteThatArrivesLateChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	bucket := newBucket(t)
	h.environment = append(h.environment, "BERTH_STORAGE_URL="+bucket.url)
	h.startServer()
	shop := h.namespace("shop", 1)
	write := bucket.hold(t, writeOf("velero-backup.json"))
	first := h.startWorker(shortLeaseFlags...)
	a := h.post("a", shop)
	write.await()
	first.signal(syscall.SIGSTOP)
	second := h.startWorker(shortLeaseFlags...)
	secondID := second.workerID()
	stands := h.awaitPhase(a, berth.PhaseCompleted)
	if stands.Attempt != 2 || value(stands.Worker) != secondID {
		t.Errorf("a was completed by worker %s in attempt %d, want %s in 2", value(stands.Worker), stands.Attempt, secondID)
	}
	objects := bucket.artefacts(t, "a")

	write.release()
	write.awaitAnswer()
	first.signal(syscall.SIGCONT)
	first.awaitOutput("its lease is lost")
	if diff := cmp.Diff(stands, h.get(a)); diff != "" {
		t.Errorf("the row has changed (-before +after):\n%s", diff)
	}
	if !cmp.Equal(objects, bucket.artefacts(t, "a")) {
		t.Error("the objects have changed")
	}
	if names := slices.Sorted(maps.Keys(objects)); !slices.Equal(names, wholeBackup("a")) {
		t.Errorf("the bucket holds %q", names)
	}
}

// A store that is lost in mid run costs the attempt, not the backup: it is tried
// again by itself when the store is back.
func TestAStoreThatIsLostInMidRunCostsAnAttempt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	bucket := newBucket(t)
	h.environment = append(h.environment, "BERTH_STORAGE_URL="+bucket.url)
	h.startServer()
	shop := h.namespace("shop", 3)
	list := h.gate.hold(t, listOfConfigMaps(shop))
	h.startWorker()
	a := h.post("a", shop)
	list.await()
	away := bucket.refuse()
	list.release()
	await(t, "a is to be tried again", func() bool { b := h.get(a); return b.Phase == berth.PhaseNew && b.Attempt == 2 })
	lost := h.get(a)
	if value(lost.Reason) != "StorageLost" || lost.Queue == nil || lost.Queue.BlockedBy[0].Reason != berth.WaitBackOff {
		t.Errorf("a waits as %+v", lost)
	}
	away()
	h.execute("UPDATE backups SET retry_at = clock_timestamp() WHERE retry_at IS NOT NULL") // 15 to 30 s
	done := h.awaitPhase(a, berth.PhaseCompleted)
	if done.Attempt != 2 {
		t.Errorf("a was completed in attempt %d", done.Attempt)
	}
	if names := slices.Sorted(maps.Keys(bucket.artefacts(t, "a"))); !slices.Equal(names, wholeBackup("a")) {
		t.Errorf("the bucket holds %q", names)
	}
}
