// Package k8ssync keeps one Kubernetes cluster and its rows in step: the
// cluster's namespaces go into the inventory, and each backup's state goes out
// into its velero.io/v1 Backup object.
//
// The rows are the truth for backups, the cluster is the truth for namespaces.
// Nothing important lives here: both loops start again from what they read, so
// that a crash, an API server or a database that is away for an hour changes
// nothing but how far one side lags behind the other.
package k8ssync
