package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-backup/berth/deploy"
)

// prepareCluster gives a cluster without Velero the namespace and the
// definition of Backup objects. Where Velero's own definition is installed, it
// is used as it is.
func prepareCluster(ctx context.Context, cluster *rest.Config) error {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return fmt.Errorf("make a Kubernetes client: %w", err)
	}
	if err := createNamespace(ctx, client, veleroNamespace); err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(cluster)
	if err != nil {
		return fmt.Errorf("make a Kubernetes client: %w", err)
	}
	var definition unstructured.Unstructured
	if err := yaml.Unmarshal(deploy.BackupDefinition, &definition.Object); err != nil {
		return fmt.Errorf("read the definition of Backup objects: %w", err)
	}
	definitions := objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := definitions.Create(ctx, &definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("define Backup objects: %w", err)
	}
	return awaitDefinition(ctx, objects)
}

// awaitDefinition waits until the API server serves Backup objects.
func awaitDefinition(ctx context.Context, objects dynamic.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		_, err := objects.Resource(backupObjects).Namespace(veleroNamespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) && ctx.Err() == nil {
			return fmt.Errorf("wait for the definition of Backup objects: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the definition of Backup objects: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
