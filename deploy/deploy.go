// Package deploy holds the manifests that a cluster may need, for the programs
// that apply them by themselves: the demo, the development environment, tests.
package deploy

import _ "embed"

// BackupDefinition is the YAML of the CustomResourceDefinition
// backups.velero.io, for clusters without Velero. Where Velero is installed its
// own is used.
//
//go:embed crd/backups.velero.io.yaml
var BackupDefinition []byte
