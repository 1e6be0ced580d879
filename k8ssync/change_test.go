package k8ssync

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-backup/berth"
)

func TestStatusFieldsAreThoseOfTheStatus(t *testing.T) {
	t.Parallel()
	var want []string
	for field := range reflect.TypeFor[berth.VeleroStatus]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		want = append(want, name)
	}
	slices.Sort(want)
	if have := slices.Sorted(slices.Values(statusFields)); !slices.Equal(have, want) {
		t.Errorf("statusFields are %v, those of berth.VeleroStatus %v", have, want)
	}
}

// anyBackup draws what a row can be, and more.
func anyBackup(t *rapid.T, name string) berth.Backup {
	at := rapid.Custom(func(t *rapid.T) *time.Time {
		if rapid.Bool().Draw(t, "unset") {
			return nil
		}
		return new(time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "second"), rapid.Int64Range(0, 999999999).Draw(t, "nanosecond")))
	})
	count := rapid.IntRange(0, 1_000_000)
	b := berth.Backup{
		ID: uuid.New(), Name: name, Cluster: "east",
		Phase:   rapid.SampledFrom(berth.Phases()).Draw(t, "phase"),
		Version: rapid.Int64Range(1, 1<<40).Draw(t, "version"),
		Message: rapid.String().Draw(t, "message"), FailureReason: rapid.String().Draw(t, "failureReason"),
		ValidationErrors: rapid.SliceOf(rapid.String()).Draw(t, "validationErrors"),
		CreatedAt:        time.Now(),
		StartedAt:        at.Draw(t, "startedAt"), CompletedAt: at.Draw(t, "completedAt"), ExpiresAt: at.Draw(t, "expiresAt"),
		Warnings: count.Draw(t, "warnings"), Errors: count.Draw(t, "errors"),
		Spec: anySpec().Draw(t, "spec"),
	}
	if rapid.Bool().Draw(t, "waits") {
		b.Queue = &berth.QueueEntry{Position: count.Draw(t, "position")}
	}
	if rapid.Bool().Draw(t, "progresses") {
		b.Progress = &berth.Progress{ItemsBackedUp: count.Draw(t, "itemsBackedUp"), TotalItems: count.Draw(t, "totalItems")}
	}
	return b
}

func anySpec() *rapid.Generator[berth.Spec] {
	list := rapid.SliceOfN(rapid.String(), 0, 3)
	texts := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3)
	// They become the object's own, which have rules.
	labels := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,20}`), rapid.StringMatching(`[A-Za-z0-9]{0,20}`), 0, 3)
	boolean := rapid.Ptr(rapid.Bool(), true)
	duration := rapid.Map(rapid.Int64(), func(d int64) metav1.Duration { return metav1.Duration{Duration: time.Duration(d)} })
	selector := rapid.Custom(func(t *rapid.T) *metav1.LabelSelector {
		s := &metav1.LabelSelector{MatchLabels: texts.Draw(t, "matchLabels")}
		for range rapid.IntRange(0, 2).Draw(t, "expressions") {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: rapid.String().Draw(t, "key"), Operator: metav1.LabelSelectorOpIn, Values: list.Draw(t, "values"),
			})
		}
		return s
	})
	return rapid.Custom(func(t *rapid.T) berth.Spec {
		s := berth.Spec{
			Metadata:           berth.Metadata{Labels: labels.Draw(t, "labels")},
			IncludedNamespaces: list.Draw(t, "includedNamespaces"), ExcludedNamespaces: list.Draw(t, "excludedNamespaces"),
			IncludedResources: list.Draw(t, "includedResources"), ExcludedResources: list.Draw(t, "excludedResources"),
			IncludedClusterScopedResources:   list.Draw(t, "includedClusterScopedResources"),
			ExcludedClusterScopedResources:   list.Draw(t, "excludedClusterScopedResources"),
			IncludedNamespaceScopedResources: list.Draw(t, "includedNamespaceScopedResources"),
			ExcludedNamespaceScopedResources: list.Draw(t, "excludedNamespaceScopedResources"),
			IncludeClusterResources:          boolean.Draw(t, "includeClusterResources"),
			SnapshotVolumes:                  boolean.Draw(t, "snapshotVolumes"),
			TTL:                              duration.Draw(t, "ttl"),
			StorageLocation:                  rapid.StringMatching(`[a-z]([-a-z0-9]{0,80}[a-z0-9])?`).Draw(t, "storageLocation"),
			VolumeSnapshotLocations:          list.Draw(t, "volumeSnapshotLocations"),
			VolumeGroupSnapshotLabelKey:      rapid.String().Draw(t, "volumeGroupSnapshotLabelKey"),
			DefaultVolumesToRestic:           boolean.Draw(t, "defaultVolumesToRestic"),
			DefaultVolumesToFsBackup:         boolean.Draw(t, "defaultVolumesToFsBackup"),
			OrderedResources:                 texts.Draw(t, "orderedResources"),
			CSISnapshotTimeout:               duration.Draw(t, "csiSnapshotTimeout"),
			ItemOperationTimeout:             duration.Draw(t, "itemOperationTimeout"),
			SnapshotMoveData:                 boolean.Draw(t, "snapshotMoveData"),
			DataMover:                        rapid.String().Draw(t, "datamover"),
		}
		if rapid.Bool().Draw(t, "selects") {
			s.LabelSelector = selector.Draw(t, "labelSelector")
		} else {
			s.OrLabelSelectors = rapid.SliceOfN(selector, 0, 2).Draw(t, "orLabelSelectors")
		}
		if rapid.Bool().Draw(t, "policy") {
			s.ResourcePolicy = &berth.ResourcePolicy{Kind: "configmap", Name: rapid.String().Draw(t, "policyName"), APIGroup: rapid.Ptr(rapid.String(), true).Draw(t, "apiGroup")}
		}
		if rapid.Bool().Draw(t, "upload") {
			s.UploaderConfig = json.RawMessage(fmt.Sprintf(`{"parallelFilesUpload":%d}`, rapid.Int32().Draw(t, "parallelFilesUpload")))
		}
		return s
	})
}

// What a row can be is what its object shows, whatever stood there before and
// whatever others wrote beside it; and it takes one write to get there.
func TestObjectEqualsRowAfterAnyHistory(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	rapid.Check(t, func(rt *rapid.T) {
		name := "history-" + uuid.NewString()
		b := anyBackup(rt, name)
		uid, err := h.put(h.config, b, "")
		if err != nil {
			rt.Fatal(err)
		}
		want, err := wantedObject(b, h.namespace)
		if err != nil {
			rt.Fatal(err)
		}
		object := h.get(name)
		for _, part := range []string{"spec", "status"} {
			if diff := cmp.Diff(want.Object[part], object.Object[part]); diff != "" {
				rt.Fatalf("%s of the new object (-want +have):\n%s", part, diff)
			}
		}
		for range 3 {
			if rapid.Bool().Draw(rt, "somebody writes") {
				damage := map[string]any{"volumeSnapshotsAttempted": 1}
				other, err := wantedObject(anyBackup(rt, name), h.namespace)
				if err != nil {
					rt.Fatal(err)
				}
				maps.Copy(damage, other.Object["status"].(map[string]any))
				for _, field := range rapid.SliceOfDistinct(rapid.SampledFrom(statusFields), rapid.ID).Draw(rt, "removed") {
					damage[field] = nil
				}
				patch, err := json.Marshal(map[string]any{"status": damage})
				if err != nil {
					rt.Fatal(err)
				}
				h.patch(name, string(patch))
			}
			next := anyBackup(rt, name)
			next.ID, next.Spec = b.ID, b.Spec
			next.Version = b.Version + rapid.Int64Range(0, 2).Draw(rt, "versions")
			b = next
			if got, err := h.put(h.config, b, rapid.SampledFrom([]string{uid, ""}).Draw(rt, "known")); err != nil || got != uid {
				rt.Fatalf("put: uid %q, %v", got, err)
			}
			if err := h.shows(b); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

func TestDefinitionRefuses(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	if _, err := h.put(h.config, sampleBackup("strict"), ""); err != nil {
		t.Fatal(err)
	}
	for name, patch := range map[string]string{
		"a phase of nobody":      `{"status":{"phase":"Sunk"}}`,
		"Canceled":               `{"status":{"phase":"Canceled"}}`,
		"a position in words":    `{"status":{"queuePosition":"first"}}`,
		"a time that is none":    `{"status":{"startTimestamp":"noon"}}`,
		"one namespace as text":  `{"spec":{"includedNamespaces":"ns1"}}`,
		"a hook without a name":  `{"spec":{"hooks":{"resources":[{}]}}}`,
		"a hook without command": `{"spec":{"hooks":{"resources":[{"name":"h","pre":[{"exec":{"command":[]}}]}]}}}`,
		"a hook's onError":       `{"spec":{"hooks":{"resources":[{"name":"h","pre":[{"exec":{"command":["sync"],"onError":"Ignore"}}]}]}}}`,
		"a policy without name":  `{"spec":{"resourcePolicy":{"kind":"configmap"}}}`,
	} {
		if _, err := h.backups.Patch(t.Context(), "strict", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err == nil {
			t.Errorf("%s is taken: %s", name, patch)
		}
	}
	for name, patch := range map[string]string{
		"hooks": `{"spec":{"hooks":{"resources":[{"name":"h","includedNamespaces":["ns1"],"labelSelector":{"matchLabels":{"a":"b"}},
			"pre":[{"exec":{"container":"c","command":["sync","-f"],"onError":"Fail","timeout":"30s"}}],"post":[{"exec":{"command":["sync"],"onError":"Continue"}}]}]}}}`,
		"a phase of Velero's": `{"status":{"phase":"WaitingForPluginOperationsPartiallyFailed"}}`,
		"counters of others":  `{"status":{"volumeSnapshotsAttempted":1,"csiVolumeSnapshotsCompleted":2,"backupItemOperationsFailed":3,"hookStatus":{"hooksFailed":4}}}`,
	} {
		object, err := h.backups.Patch(t.Context(), "strict", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldValidation: "Strict"})
		if err != nil {
			t.Errorf("%s is refused: %v", name, err)
			continue
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(patch), &want); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		var have map[string]any
		if err := json.Unmarshal(text, &have); err != nil {
			t.Fatal(err)
		}
		if missing := notIn(want, have); missing != "" {
			t.Errorf("%s: %s is not kept", name, missing)
		}
	}
}

// notIn names a field of want that have lacks or has otherwise; empty if none.
func notIn(want, have any) string {
	fields, isObject := want.(map[string]any)
	others, _ := have.(map[string]any)
	if !isObject {
		if reflect.DeepEqual(want, have) {
			return ""
		}
		return fmt.Sprintf("%v (it is %v)", want, have)
	}
	for key, value := range fields {
		if missing := notIn(value, others[key]); missing != "" {
			return key + "." + missing
		}
	}
	return ""
}
