package k8ssync

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/berth-backup/berth"
)

// objectTries is how often an object is read again because it changed between
// reading and writing.
const objectTries = 8

// objects writes Backup objects of one Kubernetes namespace.
type objects struct {
	client    dynamic.ResourceInterface
	namespace string
	writes    *rate.Limiter
	// timeout bounds one request, so that a server which hangs shows as one that
	// cannot be reached.
	timeout time.Duration
}

func newObjects(client dynamic.Interface, namespace string, qps float64, timeout time.Duration) objects {
	backups := schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backups"}
	return objects{
		client:    client.Resource(backups).Namespace(namespace),
		namespace: namespace,
		writes:    rate.NewLimiter(rate.Limit(qps), max(1, int(qps/5))),
		timeout:   timeout,
	}
}

// put makes m's object, or makes its status equal to m.Backup, and returns its
// uid: that of the object in the cluster, or m.ObjectUID where that object is
// gone, which is left at that.
func (o objects) put(ctx context.Context, m berth.Mirror) (uid string, err error) {
	want, err := wantedObject(m.Backup, o.namespace)
	if err != nil {
		return "", err
	}
	if m.ObjectUID == "" {
		made, err := o.create(ctx, want)
		if err == nil {
			return string(made.GetUID()), nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("create the object: %w", err)
		}
	}
	return o.update(ctx, want, m.ObjectUID)
}

// update reads the object, decides and writes, again whenever it changed in
// between. knownUID is empty where no object is known to be this backup's.
func (o objects) update(ctx context.Context, want *unstructured.Unstructured, knownUID string) (uid string, err error) {
	var refused change
	var refusal error
	for range objectTries {
		have, err := o.get(ctx, want.GetName())
		if apierrors.IsNotFound(err) && knownUID != "" {
			return knownUID, nil
		}
		if err != nil {
			return "", fmt.Errorf("read the object: %w", err)
		}
		c, err := decide(have, want, knownUID)
		if err != nil {
			return "", err
		}
		if c.leave {
			return c.uid, nil
		}
		if refusal != nil && bytes.Equal(c.patch, refused.patch) {
			// Its tests hold, so that its values are what was refused.
			return "", fmt.Errorf("%w: %w", ErrRejected, refusal)
		}
		_, err = o.patch(ctx, want.GetName(), c)
		switch {
		case err == nil:
			return c.uid, nil
		case apierrors.IsInvalid(err):
			refused, refusal = c, err
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		default:
			return "", fmt.Errorf("write the status: %w", err)
		}
	}
	return "", errBusy
}

func (o objects) create(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return o.write(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return o.client.Create(ctx, object, metav1.CreateOptions{})
	})
}

func (o objects) patch(ctx context.Context, name string, c change) (*unstructured.Unstructured, error) {
	return o.write(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return o.client.Patch(ctx, name, c.patchType, c.patch, metav1.PatchOptions{})
	})
}

// write sends one write when the rate allows it.
func (o objects) write(ctx context.Context, send func(context.Context) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	if err := o.writes.Wait(ctx); err != nil {
		// The limiter refuses early what it could not allow before ctx ends.
		return nil, fmt.Errorf("%w: %w", errNoTimeLeft, err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	object, err := send(ctx)
	return object, o.explain(err)
}

func (o objects) get(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	object, err := o.client.Get(ctx, name, metav1.GetOptions{})
	return object, o.explain(err)
}

// explain tells the kinds of 404 apart: a resource that the server does not
// know, a namespace that is missing, an object that is.
func (o objects) explain(err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	if apierrors.IsUnexpectedServerError(err) {
		// Not %w: to the caller the object is not what is missing.
		return fmt.Errorf("%w (%v)", ErrNoDefinition, err)
	}
	if status := err.(apierrors.APIStatus).Status(); status.Details != nil && status.Details.Kind == "namespaces" {
		return fmt.Errorf("%w (%s)", ErrNoNamespace, o.namespace)
	}
	return err
}

// wantedObject is the object of b as the API server would return it, without
// what only the server knows.
func wantedObject(b berth.Backup, namespace string) (*unstructured.Unstructured, error) {
	v := berth.VeleroBackupOf(b, namespace)
	v.Metadata.CreationTimestamp = metav1.Time{}
	v.Metadata.UID = ""
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the object: %w", err)
	}
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("encode the object: %w", err)
	}
	return &object, nil
}
