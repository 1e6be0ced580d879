package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// work is something to back up.
type work struct {
	name string
	// namespaces is how many there are, items how many objects in all that a bare
	// list reads.
	namespaces, items int
	// crowd is a backup of each namespace, all asked for at once.
	crowd bool
	// lists are the resources that a bare list reads.
	lists []schema.GroupVersionResource
	fill  func(ctx context.Context, objects dynamic.Interface, namespace string, group *errgroup.Group)
}

var (
	namespacesResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps         = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	pods               = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	claims             = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	volumes            = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}
)

var works = []work{
	{name: "configmaps-10k", namespaces: 1, items: 10_000, lists: []schema.GroupVersionResource{configMaps}, fill: someConfigMaps(10_000)},
	{name: "configmaps-50k", namespaces: 1, items: 50_000, lists: []schema.GroupVersionResource{configMaps}, fill: someConfigMaps(50_000)},
	{name: "namespaces-100", namespaces: 100, items: 2000, lists: []schema.GroupVersionResource{configMaps}, fill: someConfigMaps(20)},
	{name: "pods-1k", namespaces: 1, items: 3000, lists: []schema.GroupVersionResource{pods, claims, volumes}, fill: podsWithClaims(1000)},
	{name: "crowd", namespaces: 100, items: 2000, crowd: true, fill: someConfigMaps(20)},
}

// WorkNames are those that there are.
func WorkNames() []string {
	var names []string
	for _, w := range works {
		names = append(names, w.name)
	}
	return names
}

func workNamed(name string) *work {
	for _, w := range works {
		if w.name == name {
			return &w
		}
	}
	return nil
}

// make makes the namespaces of a work and what is in them.
func (w work) make(ctx context.Context, objects dynamic.Interface) ([]string, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	var names []string
	for range w.namespaces {
		name := "bench-" + strings.ToLower(rand.Text()[:10])
		names = append(names, name)
		if err := create(ctx, objects, namespacesResource, "", object("v1", "Namespace", name, nil)); err != nil {
			return names, err
		}
		w.fill(ctx, objects, name, group)
	}
	return names, group.Wait()
}

func create(ctx context.Context, objects dynamic.Interface, of schema.GroupVersionResource, namespace string, o *unstructured.Unstructured) error {
	_, err := objects.Resource(of).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{})
	return err
}

func object(apiVersion, kind, name string, fields map[string]any) *unstructured.Unstructured {
	o := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}
	for key, value := range fields {
		o[key] = value
	}
	return &unstructured.Unstructured{Object: o}
}

// someConfigMaps are n of 1.5 kB each, whose text compresses as settings do.
func someConfigMaps(n int) func(context.Context, dynamic.Interface, string, *errgroup.Group) {
	return func(ctx context.Context, objects dynamic.Interface, namespace string, group *errgroup.Group) {
		for i := range n {
			group.Go(func() error {
				var text strings.Builder
				for j := range 50 {
					fmt.Fprintf(&text, "key-%06d: value-%012x\n", i, i*7919+j*104729)
				}
				return create(ctx, objects, configMaps, namespace, object("v1", "ConfigMap", fmt.Sprintf("config-%05d", i), map[string]any{
					"data": map[string]any{"text": text.String()[:1500]},
				}))
			})
		}
	}
}

// podsWithClaims are n pods that run, each with a claim of its own that is bound.
func podsWithClaims(n int) func(context.Context, dynamic.Interface, string, *errgroup.Group) {
	return func(ctx context.Context, objects dynamic.Interface, namespace string, group *errgroup.Group) {
		for i := range n {
			group.Go(func() error {
				name := fmt.Sprintf("%s-%04d", namespace, i)
				size := map[string]any{"storage": "1Gi"}
				modes := []any{"ReadWriteOnce"}
				if err := create(ctx, objects, volumes, "", object("v1", "PersistentVolume", name, map[string]any{"spec": map[string]any{
					"capacity": size, "accessModes": modes, "hostPath": map[string]any{"path": "/nowhere"}, "persistentVolumeReclaimPolicy": "Retain",
					"claimRef": map[string]any{"namespace": namespace, "name": name},
				}})); err != nil {
					return err
				}
				if err := create(ctx, objects, claims, namespace, object("v1", "PersistentVolumeClaim", name, map[string]any{"spec": map[string]any{
					"accessModes": modes, "volumeName": name, "storageClassName": "", "resources": map[string]any{"requests": size},
				}})); err != nil {
					return err
				}
				if err := create(ctx, objects, pods, namespace, object("v1", "Pod", name, map[string]any{"spec": map[string]any{
					"containers": []any{map[string]any{"name": "main", "image": "example.com/image:1", "volumeMounts": []any{map[string]any{"name": "data", "mountPath": "/data"}}}},
					"volumes":    []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": name}}},
				}})); err != nil {
					return err
				}
				status := func(of schema.GroupVersionResource, phase string) error {
					patch := fmt.Sprintf(`{"status":{"phase":%q}}`, phase)
					_, err := objects.Resource(of).Namespace(namespace).Patch(ctx, name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status")
					return err
				}
				if err := status(claims, "Bound"); err != nil {
					return err
				}
				return status(pods, "Running")
			})
		}
	}
}

// removeNamespaces asks for the end of what was made; a cluster with its
// controllers empties the namespaces.
func removeNamespaces(objects dynamic.Interface, names []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, name := range names {
		_ = objects.Resource(namespacesResource).Delete(ctx, name, metav1.DeleteOptions{}) // a leftover of a measurement
	}
}
