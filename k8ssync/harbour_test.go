package k8ssync

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/internal/devenv"
)

// harbour is a Kubernetes namespace of Backup objects.
type harbour struct {
	t         *testing.T
	config    *rest.Config
	namespace string
	backups   dynamic.ResourceInterface
}

func newHarbour(t *testing.T) harbour {
	t.Helper()
	k, client := cluster(t)
	namespace := devenv.TestNamespace(t, k, "velero")
	return harbour{t: t, config: k.Config, namespace: namespace, backups: client.Resource(backupResource).Namespace(namespace)}
}

func (h harbour) mirror(config *rest.Config, store MirrorStore, o MirrorOptions) *Mirror {
	h.t.Helper()
	o.Cluster, o.Namespace = "east", h.namespace
	if o.Holder == "" {
		o.Holder = "worker-1"
	}
	if o.Poll == 0 {
		o.Poll = 20 * time.Millisecond
	}
	if o.QPS == 0 {
		o.QPS = 1000
	}
	if o.Log == nil {
		o.Log = quiet()
	}
	o.RetryMin, o.RetryMax = 5*time.Millisecond, 50*time.Millisecond
	m, err := NewMirror(config, store, o)
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

func (h harbour) get(name string) *unstructured.Unstructured {
	h.t.Helper()
	object, err := h.backups.Get(h.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return object
}

func (h harbour) patch(name, patch string) {
	h.t.Helper()
	if _, err := h.backups.Patch(h.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// put writes b's object as a mirror does.
func (h harbour) put(config *rest.Config, b berth.Backup, knownUID string) (string, error) {
	h.t.Helper()
	m := h.mirror(config, &mirrorRows{}, MirrorOptions{})
	return m.objects.put(h.t.Context(), berth.Mirror{Backup: b, ObjectUID: knownUID})
}

// shows returns an error unless b's object shows exactly b's status and annotations.
func (h harbour) shows(b berth.Backup) error {
	h.t.Helper()
	object := h.get(b.Name)
	text, err := json.Marshal(object.Object["status"])
	if err != nil {
		return err
	}
	var have, want berth.VeleroStatus
	if err := json.Unmarshal(text, &have); err != nil {
		return err
	}
	// Times have whole seconds there.
	text, err = json.Marshal(berth.VeleroStatusOf(b))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &want); err != nil {
		return err
	}
	if diff := cmp.Diff(want, have); diff != "" {
		return fmt.Errorf("the object's status differs (-want +have):\n%s", diff)
	}
	for key, value := range map[string]string{berth.AnnotationID: b.ID.String(), berth.AnnotationVersion: strconv.FormatInt(b.Version, 10)} {
		if have := object.GetAnnotations()[key]; have != value {
			return fmt.Errorf("annotation %s is %q, want %q", key, have, value)
		}
	}
	return nil
}

func sampleBackup(name string) berth.Backup {
	at := time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)
	return berth.Backup{
		ID: uuid.New(), Name: name, Cluster: "east", Phase: berth.PhaseQueued, Version: 1,
		Labels: map[string]string{"team": "red"}, Annotations: map[string]string{"why": "because"},
		CreatedAt: at, EnqueuedAt: &at, Queue: &berth.QueueEntry{Position: 7},
		Spec: berth.Spec{IncludedNamespaces: []string{"ns1", "ns2"}, StorageLocation: "west"},
	}
}
