package berth

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultTTL is how long a backup is kept whose ttl is unset or zero (Velero's
// --default-backup-ttl).
const DefaultTTL = 720 * time.Hour

// DefaultStorageLocation is the location of a backup that names none (Velero's
// --default-backup-storage-location).
const DefaultStorageLocation = "default"

// Spec is Velero's BackupSpec, field for field: the same JSON stands in the
// API, in the table and in the object in the cluster. Fields that Berth does
// not act on are here so that they are refused by name instead of ignored.
type Spec struct {
	Metadata                         Metadata                `json:"metadata,omitzero"`
	IncludedNamespaces               []string                `json:"includedNamespaces,omitempty"`
	ExcludedNamespaces               []string                `json:"excludedNamespaces,omitempty"`
	IncludedResources                []string                `json:"includedResources,omitempty"`
	ExcludedResources                []string                `json:"excludedResources,omitempty"`
	IncludedClusterScopedResources   []string                `json:"includedClusterScopedResources,omitempty"`
	ExcludedClusterScopedResources   []string                `json:"excludedClusterScopedResources,omitempty"`
	IncludedNamespaceScopedResources []string                `json:"includedNamespaceScopedResources,omitempty"`
	ExcludedNamespaceScopedResources []string                `json:"excludedNamespaceScopedResources,omitempty"`
	IncludeClusterResources          *bool                   `json:"includeClusterResources,omitempty"`
	LabelSelector                    *metav1.LabelSelector   `json:"labelSelector,omitempty"`
	OrLabelSelectors                 []*metav1.LabelSelector `json:"orLabelSelectors,omitempty"`
	SnapshotVolumes                  *bool                   `json:"snapshotVolumes,omitempty"`
	// TTL is how long the backup is kept after it was admitted; unset or zero means DefaultTTL.
	TTL                         metav1.Duration   `json:"ttl,omitzero"`
	StorageLocation             string            `json:"storageLocation,omitempty"`
	VolumeSnapshotLocations     []string          `json:"volumeSnapshotLocations,omitempty"`
	VolumeGroupSnapshotLabelKey string            `json:"volumeGroupSnapshotLabelKey,omitempty"`
	DefaultVolumesToRestic      *bool             `json:"defaultVolumesToRestic,omitempty"`
	DefaultVolumesToFsBackup    *bool             `json:"defaultVolumesToFsBackup,omitempty"`
	OrderedResources            map[string]string `json:"orderedResources,omitempty"`
	CSISnapshotTimeout          metav1.Duration   `json:"csiSnapshotTimeout,omitzero"`
	ItemOperationTimeout        metav1.Duration   `json:"itemOperationTimeout,omitzero"`
	ResourcePolicy              *ResourcePolicy   `json:"resourcePolicy,omitempty"`
	SnapshotMoveData            *bool             `json:"snapshotMoveData,omitempty"`
	DataMover                   string            `json:"datamover,omitempty"`
	UploaderConfig              json.RawMessage   `json:"uploaderConfig,omitempty"`
	Hooks                       Hooks             `json:"hooks,omitzero"`
}

// Metadata holds the labels of a backup made from a schedule's template.
type Metadata struct {
	Labels map[string]string `json:"labels,omitempty"`
}

// ResourcePolicy names the ConfigMap with Velero's resource policies.
type ResourcePolicy struct {
	APIGroup *string `json:"apiGroup,omitempty"`
	Kind     string  `json:"kind"`
	Name     string  `json:"name"`
}

// Location is the storage location that the backup goes to.
func (s Spec) Location() string {
	if s.StorageLocation == "" {
		return DefaultStorageLocation
	}
	return s.StorageLocation
}

// KeepFor is how long the backup is kept after it was admitted.
func (s Spec) KeepFor() time.Duration {
	if s.TTL.Duration == 0 {
		return DefaultTTL
	}
	return s.TTL.Duration
}

// WithDefaults fills in what an unset field means, as Velero does when it
// takes a backup up: all namespaces, the default location, the default ttl.
func (s Spec) WithDefaults() Spec {
	if len(s.IncludedNamespaces) == 0 {
		s.IncludedNamespaces = []string{"*"}
	}
	s.StorageLocation = s.Location()
	s.TTL.Duration = s.KeepFor()
	return s
}
