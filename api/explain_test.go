package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/berth-backup/berth"
)

func TestExplanationsAreShownWhole(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	type array = []any
	url, client := serve(t, working())
	ref := object{"id": running.ID.String(), "name": "nightly"}
	for _, test := range []struct {
		backup berth.Backup
		want   object
	}{
		{queued, object{
			"backup":  object{"id": queued.ID.String(), "name": "shop", "phase": "Queued"},
			"cluster": "default", "computedAt": "2026-07-01T10:00:00Z", "position": 1.,
			"blockedBy": array{
				object{"reason": "QueuePaused", "backup": nil, "namespaces": array{}, "setting": "paused by ops: upgrade", "since": "2026-07-01T10:00:00Z"},
				object{"reason": "RunningOverlap", "backup": ref, "namespaces": array{"shop"}, "setting": nil, "since": nil},
				object{"reason": "NoFreeSlot", "backup": nil, "namespaces": array{}, "setting": "concurrentBackups=2", "since": nil},
			},
			"mustEnd": array{ref},
			"chain":   array{object{"backup": ref, "phase": "InProgress", "blockedBy": nil}},
			"summary": "waits for the queue to be resumed (paused by ops: upgrade), then for nightly (running, shares shop), then for a free place",
		}},
		{running, object{
			"backup":  object{"id": running.ID.String(), "name": "nightly", "phase": "InProgress"},
			"cluster": "default", "computedAt": "2026-07-01T10:00:00Z", "position": nil,
			"blockedBy": array{}, "mustEnd": array{}, "chain": array{}, "summary": "does not wait: it is InProgress",
		}},
	} {
		_, body := send(t, client, http.MethodGet, url+"/backups/"+test.backup.ID.String()+"/explain", "")
		var got object
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.backup.Name, diff)
		}
	}
}

func TestSummaries(t *testing.T) {
	t.Parallel()
	behind := func(reason berth.WaitReason, name string, id byte, namespaces ...string) berth.Blocker {
		return berth.Blocker{Reason: reason, Backup: &berth.BackupRef{ID: uuid.UUID{id}, Name: name}, Namespaces: namespaces}
	}
	setting := func(reason berth.WaitReason, text string) berth.Blocker {
		return berth.Blocker{Reason: reason, Setting: text}
	}
	full := setting(berth.WaitNoFreeSlot, "concurrentBackups=1")
	var shared []string
	for i := range berth.MaxShared {
		shared = append(shared, fmt.Sprintf("n%02d", i))
	}
	for _, test := range []struct {
		want     string
		blockers []berth.Blocker
	}{
		{"waits for a (running, shares shop), then for a free place", []berth.Blocker{behind(berth.WaitRunningOverlap, "a", 1, "shop"), full}},
		{"waits for a (running, shares shop and shop-db), b (running, shares shop) and c (queued)", []berth.Blocker{
			behind(berth.WaitRunningOverlap, "a", 1, "shop", "shop-db"), behind(berth.WaitRunningOverlap, "b", 2, "shop"), behind(berth.WaitEarlierQueuedOverlap, "c", 3),
		}},
		{"waits for b (running, shares n1, n2, n3, n4, n5 and 2 more)", []berth.Blocker{behind(berth.WaitRunningOverlap, "b", 2, "n1", "n2", "n3", "n4", "n5", "n6", "n7")}},
		{"waits for b (queued), c (queued), d (queued), e (queued), f (queued) and 1 more, then for a free place", []berth.Blocker{
			behind(berth.WaitEarlierQueuedOverlap, "b", 2), behind(berth.WaitEarlierQueuedOverlap, "c", 3), behind(berth.WaitEarlierQueuedOverlap, "d", 4),
			behind(berth.WaitEarlierQueuedOverlap, "e", 5), behind(berth.WaitEarlierQueuedOverlap, "f", 6), behind(berth.WaitEarlierQueuedOverlap, "g", 7), full,
		}},
		{"waits for a (running, shares n00, n01, n02, n03, n04 and at least 95 more)", []berth.Blocker{behind(berth.WaitRunningOverlap, "a", 1, shared...)}},
		{"waits until 2026-07-01T20:00:00Z", []berth.Blocker{setting(berth.WaitNotBefore, "notBefore=2026-07-01T20:00:00Z")}},
		{"waits until 2026-07-01T20:00:00Z after an attempt that was lost", []berth.Blocker{setting(berth.WaitBackOff, "retryAt=2026-07-01T20:00:00Z")}},
		{"waits for the queue to be resumed (paused), then for a worker of its cluster", []berth.Blocker{setting(berth.WaitQueuePaused, "paused"), setting(berth.WaitNoWorker, "")}},
		{"waits for its cluster's API to answer, then for the storage location cold", []berth.Blocker{setting(berth.WaitClusterUnreachable, ""), setting(berth.WaitStorageUnavailable, "storageLocation=cold")}},
		{"waits for its cluster's namespaces to be known", []berth.Blocker{setting(berth.WaitScopeUnresolvable, "")}},
		{"waits for a free place", []berth.Blocker{full}},
		{"waits for the next dequeue, which starts as many in the order of the queue as there are free places", []berth.Blocker{setting(berth.WaitDispatch, "")}},
		{"waits no longer: its start deadline has come", nil},
	} {
		url, client := serve(t, store{explain: func(uuid.UUID) (berth.Explained, error) {
			return berth.Explained{Backup: queued, Blockers: test.blockers}, nil
		}})
		_, body := send(t, client, http.MethodGet, url+"/backups/"+queued.ID.String()+"/explain", "")
		var got struct{ Summary string }
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if got.Summary != test.want {
			t.Errorf("got  %q\nwant %q", got.Summary, test.want)
		}
	}
}

// Each reason of the closed list has words of its own.
func TestEveryReasonHasWords(t *testing.T) {
	t.Parallel()
	seen := map[string]berth.WaitReason{}
	for _, reason := range berth.WaitReasons() {
		blocker := berth.Blocker{Reason: reason, Setting: "setting=value"}
		if reason == berth.WaitRunningOverlap || reason == berth.WaitEarlierQueuedOverlap {
			blocker = berth.Blocker{Reason: reason, Backup: &berth.BackupRef{Name: "other"}}
		}
		url, client := serve(t, store{explain: func(uuid.UUID) (berth.Explained, error) {
			return berth.Explained{Backup: queued, Blockers: []berth.Blocker{blocker}}, nil
		}})
		_, body := send(t, client, http.MethodGet, url+"/backups/"+queued.ID.String()+"/explain", "")
		var got struct{ Summary string }
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if same, twice := seen[got.Summary]; twice || got.Summary == "waits because of "+string(reason) {
			t.Errorf("%s is %q, as %q is", reason, got.Summary, same)
		}
		seen[got.Summary] = reason
	}
}
