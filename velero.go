package berth

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FormatVersion is the version of Velero's archive format that Berth writes.
const FormatVersion = "1.1.0"

// VeleroAPIVersion and VeleroKind name the object that mirrors a backup.
const (
	VeleroAPIVersion = "velero.io/v1"
	VeleroKind       = "Backup"
)

// VeleroBackup is a velero.io/v1 Backup object: what stands in the cluster and,
// as velero-backup.json, beside an archive.
type VeleroBackup struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Spec       Spec              `json:"spec"`
	Status     VeleroStatus      `json:"status"`
}

// VeleroStatus is the part of Velero's BackupStatus that Berth fills.
type VeleroStatus struct {
	Version             int             `json:"version,omitempty"`
	FormatVersion       string          `json:"formatVersion,omitempty"`
	Expiration          *metav1.Time    `json:"expiration,omitempty"`
	Phase               Phase           `json:"phase,omitempty"`
	QueuePosition       int             `json:"queuePosition,omitempty"`
	ValidationErrors    []string        `json:"validationErrors,omitempty"`
	StartTimestamp      *metav1.Time    `json:"startTimestamp,omitempty"`
	CompletionTimestamp *metav1.Time    `json:"completionTimestamp,omitempty"`
	FailureReason       string          `json:"failureReason,omitempty"`
	Warnings            int             `json:"warnings,omitempty"`
	Errors              int             `json:"errors,omitempty"`
	Progress            *VeleroProgress `json:"progress,omitempty"`
	HookStatus          *VeleroHooks    `json:"hookStatus,omitempty"`
}

// VeleroProgress is Velero's BackupProgress.
type VeleroProgress struct {
	TotalItems    int `json:"totalItems,omitempty"`
	ItemsBackedUp int `json:"itemsBackedUp,omitempty"`
}

// VeleroHooks is Velero's HookStatus.
type VeleroHooks struct {
	HooksAttempted int `json:"hooksAttempted,omitempty"`
	HooksFailed    int `json:"hooksFailed,omitempty"`
}

// VeleroBackupOf is the object that mirrors b in the Kubernetes namespace
// that Velero's objects live in.
func VeleroBackupOf(b Backup, namespace string) VeleroBackup {
	labels := map[string]string{LabelStorageLocation: LabelValue(b.Spec.Location())}
	for key, value := range b.Spec.Metadata.Labels {
		labels[key] = value
	}
	for key, value := range b.Labels {
		labels[key] = value
	}
	annotations := map[string]string{AnnotationID: b.ID.String(), AnnotationVersion: strconv.FormatInt(b.Version, 10)}
	for key, value := range b.Annotations {
		annotations[key] = value
	}
	return VeleroBackup{
		APIVersion: VeleroAPIVersion,
		Kind:       VeleroKind,
		Metadata: metav1.ObjectMeta{
			Name: b.Name, Namespace: namespace, UID: types.UID(""),
			CreationTimestamp: metav1.NewTime(b.CreatedAt),
			Labels:            labels, Annotations: annotations,
		},
		Spec:   b.Spec,
		Status: VeleroStatusOf(b),
	}
}

// VeleroStatusOf is b's state in Velero's words. Canceled becomes Failed with
// the reason, since Velero's CRD does not know it.
func VeleroStatusOf(b Backup) VeleroStatus {
	s := VeleroStatus{
		Version: 1, FormatVersion: FormatVersion,
		Phase: b.Phase, ValidationErrors: b.ValidationErrors, FailureReason: b.FailureReason,
		Expiration: timeOf(b.ExpiresAt), StartTimestamp: timeOf(b.StartedAt), CompletionTimestamp: timeOf(b.CompletedAt),
		Warnings: b.Warnings, Errors: b.Errors,
	}
	if b.Phase == PhaseCanceled {
		s.Phase = PhaseFailed
		s.FailureReason = "canceled: " + b.Message
	}
	if b.Queue != nil && b.Phase == PhaseQueued {
		s.QueuePosition = b.Queue.Position
	}
	if b.Progress != nil {
		s.Progress = &VeleroProgress{TotalItems: b.Progress.TotalItems, ItemsBackedUp: b.Progress.ItemsBackedUp}
		if b.Progress.HooksAttempted > 0 {
			s.HookStatus = &VeleroHooks{HooksAttempted: b.Progress.HooksAttempted, HooksFailed: b.Progress.HooksFailed}
		}
	}
	return s
}

func timeOf(t *time.Time) *metav1.Time {
	if t == nil {
		return nil
	}
	return &metav1.Time{Time: *t}
}

// Mirror is a backup whose object in the cluster is behind its row.
type Mirror struct {
	Backup Backup
	// Seq is the row's number in the database.
	Seq int64
	// ObjectUID is that of the object made before; empty if none was.
	ObjectUID string
	// Through is the last change of the row that Backup includes.
	Through int64
}
