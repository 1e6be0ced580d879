package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api/client"
)

// log is what the API tells of the newest attempt.
func (h *house) log(id uuid.UUID) string {
	h.Helper()
	answer, err := h.api.GetBackupLogsWithResponse(h.Context(), id, &client.GetBackupLogsParams{})
	if err != nil || answer.StatusCode() != 200 {
		h.Fatalf("GET /backups/%s/logs: %v, %s", id, err, answer.Body)
	}
	return string(answer.Body)
}

// The log can be read while the backup runs, and is that of the store in the end.
func TestALogIsReadWhileItsBackupRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	shop := h.namespace("shop", 3)
	list := h.gate.hold(t, listOfConfigMaps(shop))
	worker := h.startWorker(shortLeaseFlags...)
	a := h.post("a", shop)
	list.await()
	await(t, "the log says that the backup has started", func() bool { return strings.Contains(h.log(a), `msg="backup started"`) })
	// What a killed attempt said stays.
	worker.signal(syscall.SIGKILL)
	list.release()
	h.startWorker(shortLeaseFlags...)
	h.awaitPhase(a, berth.PhaseCompleted)
	live, stored := h.log(a), gunzipped(t, h.artefacts("a")["a-logs.gz"])
	if !strings.HasPrefix(live, stored) || !strings.Contains(stored, "attempt=2") || !strings.Contains(stored, `msg="backup collected"`) {
		t.Errorf("the log reads\n%s\nthat of the store\n%s", live, stored)
	}
	if n := h.count("SELECT count(*) FROM backup_logs WHERE attempt = 1 AND text LIKE '%backup started%'"); n != 1 {
		t.Errorf("%d chunks of the killed attempt", n)
	}
}

// Case A78: the store is down for the whole backup, and the log says so.
func TestALogIsKeptWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	bucket := newBucket(t)
	h.environment = append(h.environment, "BERTH_STORAGE_URL="+bucket.url)
	h.startServer()
	shop := h.namespace("shop", 1)
	h.startWorker()
	defer bucket.refuse()()
	a := h.post("a", shop)
	for attempt := 1; attempt <= berth.DefaultMaxAttempts; attempt++ {
		await(t, "the attempt is lost", func() bool { b := h.get(a); return b.Attempt > attempt || b.Phase == berth.PhaseFailed })
		h.execute("UPDATE backups SET retry_at = clock_timestamp() WHERE retry_at IS NOT NULL")
	}
	failed := h.awaitPhase(a, berth.PhaseFailed)
	if !strings.HasPrefix(value(failed.FailureReason), "StorageLost: ") {
		t.Errorf("it failed for %s", value(failed.FailureReason))
	}
	if log := h.log(a); !strings.Contains(log, "attempt started") || !strings.Contains(log, "attempt ended") || !strings.Contains(log, "503") {
		t.Errorf("the log reads\n%s", log)
	}
}
