package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

var backupObjects = schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backups"}

// checkObjects waits until the Backup objects show that the backups ended, as
// the mirror writes them after the rows, and compares them with the answers.
func checkObjects(ctx context.Context, cluster *rest.Config, o observations, promise func(bool, string, ...any)) error {
	client, err := dynamic.NewForConfig(cluster)
	if err != nil {
		return fmt.Errorf("make a Kubernetes client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, b := range submitted {
		object, err := awaitEnded(ctx, client, b.name)
		if err != nil {
			return err
		}
		text := func(fields ...string) string {
			value, _, _ := unstructured.NestedFieldNoCopy(object.Object, fields...)
			return fmt.Sprint(value)
		}
		final := o.final[b.name]
		same := text("status", "phase") == final.Phase &&
			text("status", "startTimestamp") == final.StartedAt.UTC().Format(time.RFC3339) &&
			text("status", "completionTimestamp") == final.CompletedAt.UTC().Format(time.RFC3339) &&
			text("status", "progress", "itemsBackedUp") == fmt.Sprint(final.Progress.ItemsBackedUp) &&
			object.GetAnnotations()["berth-backup.io/id"] == final.ID
		promise(same, "the object %s shows what the API answers: %s, %s items", b.name, text("status", "phase"), text("status", "progress", "itemsBackedUp"))
	}
	return nil
}

func awaitEnded(ctx context.Context, client dynamic.Interface, name string) (*unstructured.Unstructured, error) {
	for {
		object, err := client.Resource(backupObjects).Namespace(veleroNamespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			if _, ended, _ := unstructured.NestedString(object.Object, "status", "completionTimestamp"); ended {
				return object, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the Backup object %s does not show the end: %w (%v)", name, ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// printObjects prints the Backup objects as the API server returns them.
func printObjects(ctx context.Context, cluster *rest.Config) error {
	client, err := dynamic.NewForConfig(cluster)
	if err != nil {
		return fmt.Errorf("make a Kubernetes client: %w", err)
	}
	say("\nThe Backup objects in the cluster")
	for _, b := range submitted {
		object, err := client.Resource(backupObjects).Namespace(veleroNamespace).Get(ctx, b.name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the Backup object %s: %w", b.name, err)
		}
		object.SetManagedFields(nil)
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("write the Backup object %s: %w", b.name, err)
		}
		say("---\n%s", strings.TrimSpace(string(text)))
	}
	return nil
}

// listArchive lists what a backup's archive holds, with tar.
func listArchive(ctx context.Context, data, name string) error {
	path := filepath.Join(data, "default", "backups", name, name+".tar.gz")
	say("\ntar -tzf %s", path)
	output, err := exec.CommandContext(ctx, "tar", "-tzf", path).Output()
	if err != nil {
		return fmt.Errorf("list the archive %s: %w", path, err)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	const most = 30
	for i, line := range lines {
		if i == most {
			fmt.Fprintf(os.Stdout, "  … and %d more\n", len(lines)-most)
			break
		}
		say("  %s", line)
	}
	if !strings.Contains(string(output), "resources/configmaps/namespaces/ns8/") {
		return fmt.Errorf("the archive %s holds no ConfigMap of ns8", path)
	}
	return nil
}
