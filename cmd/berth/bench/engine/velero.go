package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

var (
	backups          = schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backups"}
	storageLocations = schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backupstoragelocations"}
)

// veleroNamespace is where Velero's objects live, veleroPrefix where its archives go.
const (
	veleroNamespace = "bench-velero"
	veleroPrefix    = "velero"
)

// velero is a stock Velero server.
type velero struct {
	server  *process
	objects dynamic.Interface
	folder  string
}

func startVelero(ctx context.Context, o Options, objects dynamic.Interface) (_ *velero, err error) {
	v := &velero{objects: objects}
	if v.folder, err = os.MkdirTemp("", "berth-bench-velero-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.stop())
		}
	}()
	install := exec.CommandContext(ctx, o.Velero, "install", "--crds-only")
	install.Env = append(os.Environ(), "KUBECONFIG="+o.Kubeconfig)
	if text, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("velero install --crds-only: %w: %s", err, text)
	}
	if err := v.prepare(ctx, o); err != nil {
		return nil, err
	}
	credentials := filepath.Join(v.folder, "credentials")
	text := fmt.Sprintf("[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"))
	if err := os.WriteFile(credentials, []byte(text), 0o600); err != nil {
		return nil, err
	}
	metrics, profiler, err := twoPorts()
	if err != nil {
		return nil, err
	}
	v.server, err = startProcess("velero server", o.Velero,
		[]string{"KUBECONFIG=" + o.Kubeconfig, "VELERO_NAMESPACE=" + veleroNamespace, "AWS_SHARED_CREDENTIALS_FILE=" + credentials, "TMPDIR=" + v.folder},
		"server", "--namespace", veleroNamespace, "--plugin-dir", o.VeleroPlugins, "--store-validation-frequency", "1s",
		"--concurrent-backups", fmt.Sprint(places), "--item-block-worker-count", fmt.Sprint(workers),
		"--metrics-address", metrics, "--profiler-address", profiler)
	if err != nil {
		return nil, err
	}
	return v, until(ctx, func() (bool, error) {
		location, err := objects.Resource(storageLocations).Namespace(veleroNamespace).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		status, _ := location.Object["status"].(map[string]any)
		return status["phase"] == "Available", nil
	})
}

// prepare makes Velero's namespace and its storage location.
func (v *velero) prepare(ctx context.Context, o Options) error {
	bucket, err := url.Parse(o.StorageURL)
	if err != nil {
		return err
	}
	if bucket.Scheme != "s3" {
		return fmt.Errorf("a bucket is what Velero needs, --storage-url s3://…, not %s", bucket.Scheme)
	}
	if err := create(ctx, v.objects, namespacesResource, "", object("v1", "Namespace", veleroNamespace, nil)); err != nil {
		return err
	}
	location := object("velero.io/v1", "BackupStorageLocation", "default", map[string]any{"spec": map[string]any{
		"provider": "aws", "default": true, "objectStorage": map[string]any{"bucket": bucket.Host, "prefix": veleroPrefix},
		"config": map[string]any{
			"region": bucket.Query().Get("region"), "s3ForcePathStyle": "true", "s3Url": bucket.Query().Get("endpoint"), "checksumAlgorithm": "",
		},
	}})
	// The kind is served a moment after its definition is made.
	return until(ctx, func() (bool, error) {
		err := create(ctx, v.objects, storageLocations, veleroNamespace, location)
		return err == nil, nil
	})
}

func twoPorts() (a, b string, err error) {
	one, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer func() { _ = one.Close() }()
	two, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer func() { _ = two.Close() }()
	return one.Addr().String(), two.Addr().String(), nil
}

func (v *velero) name() string { return "velero" }

func (v *velero) pid() int { return v.server.cmd.Process.Pid }

func (v *velero) stop() error {
	removeNamespaces(v.objects, []string{veleroNamespace})
	return errors.Join(v.server.stop(), os.RemoveAll(v.folder))
}

func (v *velero) ask(ctx context.Context, name string, namespaces []string) error {
	included := make([]any, len(namespaces))
	for i, namespace := range namespaces {
		included[i] = namespace
	}
	// It has no snapshotter: volumes are left alone, as Berth does.
	return create(ctx, v.objects, backups, veleroNamespace, object("velero.io/v1", "Backup", name, map[string]any{"spec": map[string]any{
		"includedNamespaces": included, "snapshotVolumes": false, "storageLocation": "default",
	}}))
}

func (v *velero) take(ctx context.Context, name string, namespaces []string) (taken, error) {
	began := time.Now()
	if err := v.ask(ctx, name, namespaces); err != nil {
		return taken{}, err
	}
	items := 0
	err := until(ctx, func() (bool, error) {
		b, err := v.objects.Resource(backups).Namespace(veleroNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		status, _ := b.Object["status"].(map[string]any)
		if progress, ok := status["progress"].(map[string]any); ok {
			done, _ := progress["itemsBackedUp"].(int64)
			items = int(done)
		}
		return ended(name, status)
	})
	return taken{took: time.Since(began), items: items}, err
}

// ended says whether a backup is Completed; another end is an error.
func ended(name string, status map[string]any) (bool, error) {
	switch status["phase"] {
	case "Completed":
		return true, nil
	case "PartiallyFailed", "Failed", "FailedValidation":
		return false, fmt.Errorf("backup %s of Velero is %v: %v", name, status["phase"], status)
	}
	return false, nil
}

func (v *velero) takeAll(ctx context.Context, prefix string, namespaces []string) (crowd, error) {
	began := time.Now()
	for i, namespace := range namespaces {
		if err := v.ask(ctx, fmt.Sprintf("%s-%03d", prefix, i), []string{namespace}); err != nil {
			return crowd{}, err
		}
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	err := until(ctx, func() (bool, error) {
		<-tick.C
		list, err := v.objects.Resource(backups).Namespace(veleroNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, b := range list.Items {
			status, _ := b.Object["status"].(map[string]any)
			if done, err := ended(b.GetName(), status); !done || err != nil {
				return false, err
			}
		}
		return true, nil
	})
	return crowd{took: time.Since(began), busy: -1}, err
}
