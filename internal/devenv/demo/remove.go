package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// sampleKinds are what the samples consist of, but for Services, which cannot
// be deleted as a collection.
var sampleKinds = []schema.GroupVersionResource{
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
}

// removeSamples removes what the demo made in a cluster that goes on without it.
func removeSamples(cluster *rest.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	config := rest.CopyConfig(cluster)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a Kubernetes client: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a Kubernetes client: %w", err)
	}
	var failures []error
	note := func(err error) {
		if err != nil && !apierrors.IsNotFound(err) {
			failures = append(failures, fmt.Errorf("remove the samples: %w", err))
		}
	}
	for _, b := range submitted {
		note(objects.Resource(backupObjects).Namespace(veleroNamespace).Delete(ctx, b.name, metav1.DeleteOptions{}))
	}
	// Nothing runs the pods: they need no time to end.
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	for i := 1; i <= 9; i++ {
		ns := fmt.Sprintf("ns%d", i)
		for _, kind := range sampleKinds {
			note(objects.Resource(kind).Namespace(ns).DeleteCollection(ctx, now, metav1.ListOptions{}))
		}
		note(client.CoreV1().Services(ns).Delete(ctx, "web", metav1.DeleteOptions{}))
		note(client.CoreV1().PersistentVolumes().Delete(ctx, "data-"+ns, now))
		note(client.RbacV1().ClusterRoleBindings().Delete(ctx, "sample:"+ns, metav1.DeleteOptions{}))
		note(client.RbacV1().ClusterRoles().Delete(ctx, "sample:"+ns, metav1.DeleteOptions{}))
		note(removeNamespace(ctx, client, ns))
	}
	return errors.Join(failures...)
}

// removeNamespace removes an empty namespace, also where no controller finishes
// its removal.
func removeNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	if err := client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	ns, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ns.Spec.Finalizers = []corev1.FinalizerName{}
	_, err = client.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{})
	return err
}
