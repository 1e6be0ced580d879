package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"k8s.io/apimachinery/pkg/version"

	"github.com/berth-backup/berth"
)

// Velero's annotations for the cluster that a backup comes from.
const (
	annotationGitVersion   = "velero.io/source-cluster-k8s-gitversion"
	annotationMajorVersion = "velero.io/source-cluster-k8s-major-version"
	annotationMinorVersion = "velero.io/source-cluster-k8s-minor-version"
)

// Publish makes the backup exist: it writes velero-backup.json, which shows b
// as an object of the given Kubernetes namespace, after it has seen that the
// folder is still this attempt's and every artefact is there, and then looks
// all objects up again. It answers berth.ErrLeaseLost where a later attempt
// has taken over. It may be called again after an error. For an adopted backup
// it only looks the objects up.
func (t *Taken) Publish(ctx context.Context, b berth.Backup, namespace string) error {
	if err := t.publish(ctx, b, namespace); err != nil {
		return fmt.Errorf("publish backup %s: %w", t.folder.run.Name, err)
	}
	return nil
}

func (t *Taken) publish(ctx context.Context, b berth.Backup, namespace string) error {
	if t.Adopted {
		return t.folder.lookUp(ctx, append([]Artefact{t.record}, t.Artefacts...))
	}
	if err := t.folder.checkOwner(ctx); err != nil {
		return err
	}
	if err := t.folder.lookUp(ctx, t.Artefacts); err != nil {
		return err
	}
	record, err := t.folder.writeRecord(ctx, t.recordOf(b, namespace))
	if err != nil {
		return err
	}
	return t.folder.lookUp(ctx, append([]Artefact{record}, t.Artefacts...))
}

// recordOf is the object that shows b, with the proof of what was written.
func (t *Taken) recordOf(b berth.Backup, namespace string) berth.VeleroBackup {
	record := berth.VeleroBackupOf(b, namespace)
	annotations := record.Metadata.Annotations
	// That one orders what the mirror writes into the cluster.
	delete(annotations, berth.AnnotationVersion)
	annotations[berth.AnnotationID] = t.folder.run.ID.String()
	annotations[berth.AnnotationFence] = strconv.FormatInt(t.folder.run.Fence, 10)
	annotations[berth.AnnotationAttempt] = strconv.Itoa(t.folder.run.Attempt)
	for _, a := range t.Artefacts {
		annotations[berth.AnnotationSHA256Prefix+a.Name] = a.SHA256
	}
	annotateVersion(annotations, t.ServerVersion)
	return record
}

func annotateVersion(annotations map[string]string, v version.Info) {
	annotations[annotationGitVersion] = v.GitVersion
	annotations[annotationMajorVersion] = v.Major
	annotations[annotationMinorVersion] = v.Minor
}

// writeRecord writes velero-backup.json. One that stands there already is
// replaced only if it is this backup's and no later attempt's.
func (f folder) writeRecord(ctx context.Context, record berth.VeleroBackup) (Artefact, error) {
	body, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return Artefact{}, err
	}
	was, err := f.readSmall(ctx, recordObject)
	switch {
	case err == nil:
		if _, err := f.recordOf(was); err != nil {
			return Artefact{}, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return Artefact{}, err
	}
	return f.replace(ctx, recordObject, func(w io.Writer) error { _, err := w.Write(append(body, '\n')); return err })
}
