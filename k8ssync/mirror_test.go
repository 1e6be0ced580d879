package k8ssync

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/berth-backup/berth"
)

func TestMirrorShowsEveryPhaseAndField(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	rows := &mirrorRows{}
	b := rows.add("life")
	created := rows.change(b.ID, func(b *berth.Backup) {
		b.Labels = map[string]string{"team": "red"}
		b.Annotations = map[string]string{"why": "because"}
		b.Spec = berth.Spec{IncludedNamespaces: []string{"ns1"}, TTL: metav1.Duration{Duration: time.Hour}}
	})
	start(t, h.mirror(h.config, rows, MirrorOptions{}).Run)
	eventually(t, func() error { return rows.mirrored(b.ID) })
	if err := h.shows(created); err != nil {
		t.Error(err)
	}
	object := h.get("life")
	wantLabels := map[string]string{"team": "red", berth.LabelStorageLocation: "default"}
	if diff := cmp.Diff(wantLabels, object.GetLabels()); diff != "" {
		t.Error("labels (-want +have):", diff)
	}
	if object.GetAnnotations()["why"] != "because" {
		t.Errorf("annotations are %v", object.GetAnnotations())
	}
	wantSpec := map[string]any{"includedNamespaces": []any{"ns1"}, "ttl": "1h0m0s"}
	if diff := cmp.Diff(wantSpec, object.Object["spec"]); diff != "" {
		t.Error("spec (-want +have):", diff)
	}
	if row := rows.get(b.ID); row.uid != string(object.GetUID()) {
		t.Errorf("reported uid %q, the object's is %q", row.uid, object.GetUID())
	}

	now := time.Now()
	for i, phase := range berth.Phases() {
		after := rows.change(b.ID, func(b *berth.Backup) {
			b.Phase = phase
			b.Queue, b.ExpiresAt, b.StartedAt, b.CompletedAt, b.Progress = nil, nil, nil, nil, nil
			b.Warnings, b.Errors, b.FailureReason, b.ValidationErrors = 0, 0, "", nil
			switch {
			case phase == berth.PhaseQueued:
				b.Queue = &berth.QueueEntry{Position: i + 2}
			case phase.Running():
				b.ExpiresAt, b.StartedAt = &now, &now
				b.Progress = &berth.Progress{ItemsBackedUp: i, TotalItems: 100}
			case phase == berth.PhaseFailedValidation:
				b.ValidationErrors = []string{"one", "two"}
			case phase.Terminal():
				b.ExpiresAt, b.StartedAt, b.CompletedAt = &now, &now, &now
				b.Warnings, b.Errors, b.FailureReason = 3, 4, "it went wrong"
				b.Message = "nobody wants it"
				b.Progress = &berth.Progress{}
			}
		})
		eventually(t, func() error { return rows.mirrored(b.ID) })
		if err := h.shows(after); err != nil {
			t.Errorf("%s: %v", phase, err)
		}
	}
	progressed := rows.change(b.ID, func(b *berth.Backup) { b.Progress = &berth.Progress{ItemsBackedUp: 5, TotalItems: 9} })
	eventually(t, func() error { return rows.mirrored(b.ID) })
	if err := h.shows(progressed); err != nil {
		t.Error("progress within a phase:", err)
	}
}

func TestMirrorLeavesWhatIsOthers(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	b := sampleBackup("shared")
	uid, err := h.put(h.config, b, "")
	if err != nil {
		t.Fatal(err)
	}
	h.patch("shared", `{"metadata":{"labels":{"team":"blue","theirs":"1"},"annotations":{"why":null,"theirs":"2"}},
		"spec":{"snapshotVolumes":true},"status":{"volumeSnapshotsAttempted":2}}`)

	// While the mirror writes, another controller does without a pause.
	stop := make(chan struct{})
	var labelling sync.WaitGroup
	labelling.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				h.patch("shared", fmt.Sprintf(`{"metadata":{"labels":{"count":"%d"}}}`, i))
			}
		}
	})
	for i := range 20 {
		b.Phase, b.Queue, b.Version = berth.PhaseInProgress, nil, b.Version+1
		b.Progress = &berth.Progress{ItemsBackedUp: i + 1, TotalItems: 20}
		if _, err := h.put(h.config, b, uid); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	labelling.Wait()

	if err := h.shows(b); err != nil {
		t.Error(err)
	}
	object := h.get("shared")
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	if labels["team"] != "blue" || labels["theirs"] != "1" || labels["count"] == "" || annotations["theirs"] != "2" || annotations["why"] != "" {
		t.Errorf("labels %v and annotations %v are not as others left them", labels, annotations)
	}
	if snapshots, _, _ := unstructured.NestedInt64(object.Object, "status", "volumeSnapshotsAttempted"); snapshots != 2 {
		t.Errorf("another's status field is %d, want 2", snapshots)
	}
	if volumes, _, _ := unstructured.NestedBool(object.Object, "spec", "snapshotVolumes"); !volumes {
		t.Error("another's edit of the spec is gone")
	}
}

func TestMirrorMendsWhatIsItsOwn(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	for name, damage := range map[string]string{
		"values":          `{"status":{"phase":"Failed","failureReason":"restart","queuePosition":null,"errors":2}}`,
		"no-status":       `{"status":null}`,
		"no-annotations":  `{"metadata":{"annotations":null}}`,
		"no-version":      `{"metadata":{"annotations":{"berth-backup.io/version":null}}}`,
		"no-id":           `{"metadata":{"annotations":{"berth-backup.io/id":null}}}`,
		"neither":         `{"metadata":{"annotations":null},"status":null}`,
		"absurd-version":  `{"metadata":{"annotations":{"berth-backup.io/version":"latest"}}}`,
		"version-of-none": `{"metadata":{"annotations":{"berth-backup.io/version":""}}}`,
		"nothing":         `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := sampleBackup(name)
			uid, err := h.put(h.config, b, "")
			if err != nil {
				t.Fatal(err)
			}
			h.patch(name, damage)
			if got, err := h.put(h.config, b, uid); err != nil || got != uid {
				t.Errorf("put: uid %q, %v", got, err)
			}
			if err := h.shows(b); err != nil {
				t.Error(err)
			}
			before := h.get(name).GetResourceVersion()
			if _, err := h.put(h.config, b, uid); err != nil {
				t.Error(err)
			}
			if h.get(name).GetResourceVersion() != before {
				t.Error("an object that equals its row was written again")
			}
		})
	}
}

func TestMirrorNeverPutsAnOlderVersionInThePlaceOfANewerOne(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	t.Run("it looks after the newer one wrote", func(t *testing.T) {
		older := sampleBackup("after")
		newer := older
		newer.Phase, newer.Queue, newer.Version = berth.PhaseInProgress, nil, 3
		uid, err := h.put(h.config, newer, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := h.put(h.config, older, uid); err != nil || got != uid {
			t.Errorf("put: uid %q, %v", got, err)
		}
		if err := h.shows(newer); err != nil {
			t.Error(err)
		}
	})
	t.Run("it sleeps between looking and writing", func(t *testing.T) {
		first := sampleBackup("between")
		// No field goes away: a patch that removes one would fail by that alone.
		first.Queue = nil
		uid, err := h.put(h.config, first, "")
		if err != nil {
			t.Fatal(err)
		}
		older, newer := first, first
		older.Phase, older.Version = berth.PhaseReadyToStart, 2
		newer.Phase, newer.Version = berth.PhaseInProgress, 3
		patches := h.putMeanwhile(older, uid, func() {
			if _, err := h.put(h.config, newer, uid); err != nil {
				t.Error(err)
			}
		})
		if err := h.shows(newer); err != nil {
			t.Error(err)
		}
		if patches != 1 {
			t.Errorf("the older one sent %d writes, want the one that was refused", patches)
		}
	})
	t.Run("another object takes the place between looking and writing", func(t *testing.T) {
		b := sampleBackup("swapped")
		b.Queue = nil
		uid, err := h.put(h.config, b, "")
		if err != nil {
			t.Fatal(err)
		}
		next := b
		next.Phase, next.Version = berth.PhaseReadyToStart, 2
		var theirs *unstructured.Unstructured
		h.putMeanwhile(next, uid, func() {
			copied := h.get("swapped")
			copied.SetUID("")
			copied.SetResourceVersion("")
			if err := h.backups.Delete(t.Context(), "swapped", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			if theirs, err = h.backups.Create(t.Context(), copied, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
		if diff := cmp.Diff(theirs.Object, h.get("swapped").Object); diff != "" {
			t.Error("the other's object changed:", diff)
		}
	})
}

// putMeanwhile writes b's object and lets something happen after it was read
// and before it is written. It returns how many writes were sent.
func (h harbour) putMeanwhile(b berth.Backup, knownUID string, happen func()) int32 {
	h.t.Helper()
	var patches atomic.Int32
	config := through(h.config, func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch && patches.Add(1) == 1 {
			happen()
		}
		return nil, nil
	})
	if _, err := h.put(config, b, knownUID); err != nil {
		h.t.Error(err)
	}
	return patches.Load()
}

func TestMirrorNeverTouchesAnObjectThatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	for name, annotations := range map[string]map[string]any{
		"no-id":      {},
		"another-id": {berth.AnnotationID: uuid.NewString(), berth.AnnotationVersion: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "velero.io/v1", "kind": "Backup",
				"metadata": map[string]any{"name": name, "annotations": annotations},
				"spec":     map[string]any{}, "status": map[string]any{"phase": "Completed"},
			}}
			theirs, err := h.backups.Create(t.Context(), object, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var log logged
			rows := &mirrorRows{}
			taken := rows.add(name)
			free := rows.add(name + "-free")
			stop := start(t, h.mirror(h.config, rows, MirrorOptions{Log: log.logger()}).Run)
			eventually(t, func() error { return rows.mirrored(free.ID) })
			eventually(t, func() error { return log.says("another Backup object has this name") })
			eventually(t, func() error { return log.says("failures=3") })
			if diff := cmp.Diff(theirs.Object, h.get(name).Object); diff != "" {
				t.Error("the other's object changed:", diff)
			}
			if rows.mirrored(taken.ID) == nil {
				t.Error("the backup counts as mirrored")
			}

			if err := h.backups.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() error { return rows.mirrored(taken.ID) })
			stop()
			if err := h.shows(taken); err != nil {
				t.Error("once the name is free:", err)
			}
		})
	}
}

func TestMirrorDropsAnObjectThatIsGone(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	rows := &mirrorRows{}
	gone, replaced := rows.add("gone"), rows.add("replaced")
	start(t, h.mirror(h.config, rows, MirrorOptions{}).Run)
	eventually(t, func() error { return rows.mirrored(gone.ID, replaced.ID) })
	goneUID, replacedUID := rows.get(gone.ID).uid, rows.get(replaced.ID).uid

	copied := h.get("replaced")
	for _, name := range []string{"gone", "replaced"} {
		if err := h.backups.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	copied.SetUID("")
	copied.SetResourceVersion("")
	theirs, err := h.backups.Create(t.Context(), copied, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []berth.Backup{gone, replaced} {
		rows.change(b.ID, func(b *berth.Backup) { b.Phase, b.Queue = berth.PhaseReadyToStart, nil })
	}
	eventually(t, func() error { return rows.mirrored(gone.ID, replaced.ID) })
	if _, err := h.backups.Get(t.Context(), "gone", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the deleted object: %v, want that it is not found", err)
	}
	if diff := cmp.Diff(theirs.Object, h.get("replaced").Object); diff != "" {
		t.Error("an object of another uid changed:", diff)
	}
	if uid := rows.get(gone.ID).uid; uid != goneUID {
		t.Errorf("reported uid %q for the deleted object, want %q", uid, goneUID)
	}
	if uid := rows.get(replaced.ID).uid; uid != replacedUID {
		t.Errorf("reported uid %q for the replaced object, want %q", uid, replacedUID)
	}
}

func TestMirrorGoesOnWithAnObjectThatItMadeBeforeACrash(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	b := sampleBackup("crash")
	uid, err := h.put(h.config, b, "")
	if err != nil {
		t.Fatal(err)
	}
	b.Phase, b.Queue, b.Version = berth.PhaseReadyToStart, nil, 2
	if got, err := h.put(h.config, b, ""); err != nil || got != uid {
		t.Errorf("put: uid %q, %v; want %q", got, err, uid)
	}
	if err := h.shows(b); err != nil {
		t.Error(err)
	}
}

func TestMirrorTriesAgain(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	for name, fault := range map[string]func(*http.Request) (*http.Response, error){
		"429": func(r *http.Request) (*http.Response, error) {
			return answer(r, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests), nil
		},
		"500": func(r *http.Request) (*http.Response, error) {
			return answer(r, http.StatusInternalServerError, metav1.StatusReasonInternalError), nil
		},
		"503": func(r *http.Request) (*http.Response, error) {
			return answer(r, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable), nil
		},
		"409": func(r *http.Request) (*http.Response, error) {
			return answer(r, http.StatusConflict, metav1.StatusReasonConflict), nil
		},
		"401": func(r *http.Request) (*http.Response, error) {
			return answer(r, http.StatusUnauthorized, metav1.StatusReasonUnauthorized), nil
		},
		"403": func(r *http.Request) (*http.Response, error) {
			return answer(r, http.StatusForbidden, metav1.StatusReasonForbidden), nil
		},
		"away": func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var broken atomic.Bool
			var faults atomic.Int32
			config := through(h.config, func(r *http.Request) (*http.Response, error) {
				if !broken.Load() || r.Method == http.MethodGet {
					return nil, nil
				}
				faults.Add(1)
				return fault(r)
			})
			var log logged
			rows := &mirrorRows{}
			var ids []uuid.UUID
			for i := range 8 {
				ids = append(ids, rows.add(fmt.Sprintf("retry-%s-%d", name, i)).ID)
			}
			broken.Store(true)
			start(t, h.mirror(config, rows, MirrorOptions{Log: log.logger()}).Run)
			someFaults := func(n int32) func() error {
				return func() error {
					if have := faults.Load(); have < n {
						return fmt.Errorf("%d faults, want %d", have, n)
					}
					return nil
				}
			}
			eventually(t, someFaults(20))
			broken.Store(false)
			eventually(t, func() error { return rows.mirrored(ids...) })

			faults.Store(0)
			broken.Store(true)
			var changed []berth.Backup
			for _, id := range ids {
				changed = append(changed, rows.change(id, func(b *berth.Backup) { b.Phase, b.Queue = berth.PhaseReadyToStart, nil }))
			}
			eventually(t, someFaults(20))
			broken.Store(false)
			eventually(t, func() error { return rows.mirrored(ids...) })
			for _, b := range changed {
				if err := h.shows(b); err != nil {
					t.Error(err)
				}
			}
			if err := log.says("retryIn="); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMirrorOutlastsTheRows(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	var log logged
	rows := &mirrorRows{err: errors.New("the database is away")}
	b := rows.add("rows")
	start(t, h.mirror(h.config, rows, MirrorOptions{Log: log.logger()}).Run)
	eventually(t, func() error { return log.says("failures=3") })
	rows.setErr(nil)
	eventually(t, func() error { return rows.mirrored(b.ID) })
}

func TestMirrorSaysThatTheClusterDoesNotKnowBackups(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	for name, instead := range map[string][2]string{
		"no-group":    {"/apis/velero.io/", "/apis/nobody.velero.io/"},
		"no-resource": {"/backups", "/backupz"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lacks atomic.Bool
			lacks.Store(true)
			config := through(h.config, func(r *http.Request) (*http.Response, error) {
				if lacks.Load() {
					r.URL.Path = strings.Replace(r.URL.Path, instead[0], instead[1], 1)
				}
				return nil, nil
			})
			b := sampleBackup(name)
			for _, uid := range []string{"", "some-uid"} {
				if _, err := h.put(config, b, uid); !errors.Is(err, ErrNoDefinition) {
					t.Errorf("known uid %q: %v", uid, err)
				}
			}
			var log logged
			rows := &mirrorRows{}
			row := rows.add(name)
			start(t, h.mirror(config, rows, MirrorOptions{Log: log.logger()}).Run)
			eventually(t, func() error { return log.says("failures=3") })
			eventually(t, func() error { return log.says(ErrNoDefinition.Error()) })
			lacks.Store(false)
			eventually(t, func() error { return rows.mirrored(row.ID) })
		})
	}
}

func TestMirrorSaysThatTheNamespaceIsMissing(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	_, client := cluster(t)
	h.namespace += "-2"
	h.backups = client.Resource(backupResource).Namespace(h.namespace)
	b := sampleBackup("early")
	if _, err := h.put(h.config, b, ""); !errors.Is(err, ErrNoNamespace) {
		t.Error(err)
	}
	var log logged
	rows := &mirrorRows{}
	row := rows.add("early")
	start(t, h.mirror(h.config, rows, MirrorOptions{Log: log.logger()}).Run)
	eventually(t, func() error { return log.says(ErrNoNamespace.Error()) })
	namespaces{t: t, client: client.Resource(namespaceResource), prefix: h.namespace}.make("")
	eventually(t, func() error { return rows.mirrored(row.ID) })
}

func TestMirrorSaysWhatIsRejected(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	rows := &mirrorRows{}
	odd, fine := rows.add("odd"), rows.add("fine")
	var log logged
	start(t, h.mirror(h.config, rows, MirrorOptions{Log: log.logger()}).Run)
	eventually(t, func() error { return rows.mirrored(odd.ID, fine.ID) })
	rows.change(odd.ID, func(b *berth.Backup) { b.Phase, b.Queue = "Sunk", nil })
	rows.change(fine.ID, func(b *berth.Backup) { b.Phase, b.Queue = berth.PhaseReadyToStart, nil })
	eventually(t, func() error { return rows.mirrored(fine.ID) })
	eventually(t, func() error { return log.says(ErrRejected.Error()) })
	eventually(t, func() error { return log.says("status.phase: Unsupported value") })
	if err := h.shows(odd); err != nil {
		t.Error("the rejected values:", err)
	}
	back := rows.change(odd.ID, func(b *berth.Backup) { b.Phase = berth.PhaseReadyToStart })
	eventually(t, func() error { return rows.mirrored(odd.ID) })
	if err := h.shows(back); err != nil {
		t.Error(err)
	}
}

func TestTwoMirrorsEndWithEqualValues(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	rows := &mirrorRows{}
	var ids []uuid.UUID
	for i := range 10 {
		ids = append(ids, rows.add(fmt.Sprintf("two-%d", i)).ID)
	}
	// Both believe that they lead.
	for _, holder := range []string{"worker-1", "worker-2"} {
		start(t, h.mirror(h.config, bothLead{rows}, MirrorOptions{Holder: holder}).Run)
	}
	phases := []berth.Phase{berth.PhaseReadyToStart, berth.PhaseInProgress, berth.PhaseFinalizing, berth.PhaseCompleted}
	for i, phase := range phases {
		for j, id := range ids {
			rows.change(id, func(b *berth.Backup) {
				b.Phase, b.Queue = phase, nil
				b.Progress = &berth.Progress{ItemsBackedUp: i*10 + j, TotalItems: 100}
			})
		}
		eventually(t, func() error { return rows.mirrored(ids[i]) })
	}
	eventually(t, func() error { return rows.mirrored(ids...) })
	for _, id := range ids {
		if err := h.shows(rows.get(id).backup); err != nil {
			t.Error(err)
		}
	}
}

// bothLead is a store that lets everyone lead, as a lost clock might.
type bothLead struct{ *mirrorRows }

func (bothLead) LeadMirror(context.Context, string, string, time.Duration) (bool, error) {
	return true, nil
}

func TestOneMirrorLeadsAndAnotherTakesOver(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	rows := &mirrorRows{}
	var writes [2]atomic.Int32
	var stops [2]func()
	first := rows.add("lead-0")
	for i := range 2 {
		config := through(h.config, func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				writes[i].Add(1)
			}
			return nil, nil
		})
		stops[i] = start(t, h.mirror(config, rows, MirrorOptions{Holder: fmt.Sprint("worker-", i), TTL: 3 * time.Second}).Run)
		eventually(t, func() error { return rows.mirrored(first.ID) })
	}
	for i := range 5 {
		b := rows.add(fmt.Sprintf("lead-%d", i+1))
		eventually(t, func() error { return rows.mirrored(b.ID) })
	}
	if a, b := writes[0].Load(), writes[1].Load(); a < 6 || b != 0 {
		t.Errorf("the leader sent %d writes and the other %d, want at least 6 and 0", a, b)
	}
	stops[0]()
	b := rows.add("lead-after")
	eventually(t, func() error { return rows.mirrored(b.ID) })
	if writes[1].Load() == 0 {
		t.Error("the new leader sent no write")
	}
}

func TestMirrorTakesHints(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	rows := &mirrorRows{}
	wake := make(chan struct{}, 1)
	start(t, h.mirror(h.config, rows, MirrorOptions{Poll: time.Hour, TTL: time.Hour, Wake: wake}).Run)
	for i := range 3 {
		b := rows.add(fmt.Sprintf("hint-%d", i))
		wake <- struct{}{}
		eventually(t, func() error { return rows.mirrored(b.ID) })
	}
}

func TestMirrorBoundsItsWrites(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	rows := &mirrorRows{}
	var ids []uuid.UUID
	for i := range 30 {
		ids = append(ids, rows.add(fmt.Sprintf("rate-%02d", i)).ID)
	}
	var mu sync.Mutex
	var sent []time.Time
	config := through(h.config, func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, time.Now())
		}
		return nil, nil
	})
	// The lease is shorter than the work: rounds end and begin again.
	start(t, h.mirror(config, rows, MirrorOptions{QPS: 20, TTL: time.Second}).Run)
	eventually(t, func() error { return rows.mirrored(ids...) })
	mu.Lock()
	defer mu.Unlock()
	// 4 at once, the others at 20 a second; 4 under way blur both ends.
	least := time.Duration(len(sent)-8) * time.Second / 20
	if took := sent[len(sent)-1].Sub(sent[0]); len(sent) < 30 || took < least {
		t.Errorf("%d writes took %s, want at least 30 and %s", len(sent), took, least)
	}
}

func TestMirrorDoesNotSpinWhereAWriteTakesLongerThanItsLease(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	rows := &mirrorRows{}
	first, second := rows.add("slow-1"), rows.add("slow-2")
	start(t, h.mirror(h.config, rows, MirrorOptions{QPS: 0.5, TTL: time.Second}).Run)
	eventually(t, func() error { return rows.mirrored(first.ID, second.ID) })
	rows.mu.Lock()
	defer rows.mu.Unlock()
	if rows.looks > 300 {
		t.Errorf("%d looks at the rows for two backups", rows.looks)
	}
}

func TestMirrorStopsWhenTheServerHangs(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	var hangs atomic.Bool
	hangs.Store(true)
	config := through(h.config, func(r *http.Request) (*http.Response, error) {
		if hangs.Load() {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return nil, nil
	})
	var log logged
	rows := &mirrorRows{}
	b := rows.add("hang")
	start(t, h.mirror(config, rows, MirrorOptions{TTL: time.Second, Log: log.logger()}).Run)
	eventually(t, func() error { return log.says("context deadline exceeded") })
	hangs.Store(false)
	eventually(t, func() error { return rows.mirrored(b.ID) })
}

func TestMirrorMirrorsMoreThanAPage(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	rows := &mirrorRows{}
	var ids []uuid.UUID
	for i := range 2*mirrorPage + 10 {
		ids = append(ids, rows.add(fmt.Sprintf("page-%03d", i)).ID)
	}
	wake := make(chan struct{})
	start(t, h.mirror(h.config, rows, MirrorOptions{Poll: time.Hour, TTL: time.Hour, Wake: wake}).Run)
	eventually(t, func() error { return rows.mirrored(ids...) })
}

func TestBackupsThatWaitForAnotherTryKeepNoneBack(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	rows := &mirrorRows{}
	m := h.mirror(h.config, rows, MirrorOptions{})
	m.retry = backoff{min: time.Hour, max: time.Hour}
	for i := range mirrorPage + 10 {
		m.note(berth.Mirror{Backup: rows.add(fmt.Sprintf("delayed-%03d", i))}, errors.New("on purpose"))
	}
	b := rows.add("free")
	if _, err := m.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := rows.mirrored(b.ID); err != nil {
		t.Error(err)
	}

	// What is behind no longer is waited for no longer.
	rows.mu.Lock()
	rows.rows = nil
	rows.mu.Unlock()
	if _, err := m.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(m.delayed) != 0 {
		t.Errorf("%d backups are remembered that are gone", len(m.delayed))
	}
}

func TestNewMirrorRefusesBadOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []MirrorOptions{
		{}, {Holder: "w", TTL: -1}, {Holder: "w", TTL: time.Millisecond}, {Holder: "w", Poll: -1},
		{Holder: "w", QPS: -1}, {Holder: "w", RetryMin: -1}, {Holder: "w", RetryMax: -1},
	} {
		if _, err := NewMirror(&rest.Config{}, &mirrorRows{}, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
