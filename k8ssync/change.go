package k8ssync

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-backup/berth"
)

// statusFields are the fields of an object's status that Berth writes: those of
// berth.VeleroStatus. Whatever else stands there is another's.
var statusFields = []string{
	"version", "formatVersion", "expiration", "phase", "queuePosition", "validationErrors",
	"startTimestamp", "completionTimestamp", "failureReason", "warnings", "errors", "progress", "hookStatus",
}

// change is what has to be done to an object.
type change struct {
	// uid is that of the object, or of the one that it took the place of.
	uid string
	// leave says that nothing is to be written.
	leave     bool
	patchType types.PatchType
	patch     []byte
}

// operation is one of a JSON Patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// decide compares the object that is with the one that is wanted. An object of
// another uid than the known one, or that shows a newer version of the row, is
// left alone; an object that was never this backup's is ErrNameTaken.
//
// A write holds only for the object and the version that were read: a mirror
// that has slept since cannot put an old status in the place of a newer one.
func decide(have, want *unstructured.Unstructured, knownUID string) (change, error) {
	c := change{uid: string(have.GetUID())}
	id := have.GetAnnotations()[berth.AnnotationID]
	switch {
	case knownUID != "" && c.uid != knownUID:
		return change{uid: knownUID, leave: true}, nil
	case knownUID == "" && id != want.GetAnnotations()[berth.AnnotationID]:
		return change{}, fmt.Errorf("%w (uid %s, %s=%q)", ErrNameTaken, c.uid, berth.AnnotationID, id)
	}
	seen, hasVersion := have.GetAnnotations()[berth.AnnotationVersion]
	wanted := want.GetAnnotations()[berth.AnnotationVersion]
	if newer(seen, wanted) {
		c.leave = true
		return c, nil
	}
	annotations := ourAnnotations(have, want)
	status := statusChanges(have, want)
	if len(annotations) == 0 && len(status) == 0 {
		c.leave = true
		return c, nil
	}
	var err error
	if _, hasStatus := have.Object["status"].(map[string]any); hasVersion && hasStatus {
		c.patchType = types.JSONPatchType
		c.patch, err = jsonPatch(c.uid, seen, annotations, status)
	} else {
		c.patchType = types.MergePatchType
		c.patch, err = mergePatch(have, annotations, status)
	}
	return c, err
}

// newer says whether the version that an object shows is newer than the row's.
// What is no number was not written by Berth and is replaced.
func newer(seen, wanted string) bool {
	s, seenErr := strconv.ParseInt(seen, 10, 64)
	w, wantedErr := strconv.ParseInt(wanted, 10, 64)
	return seenErr == nil && wantedErr == nil && s > w
}

// ourAnnotations are Berth's own that differ.
func ourAnnotations(have, want *unstructured.Unstructured) map[string]any {
	differ := map[string]any{}
	for _, key := range []string{berth.AnnotationID, berth.AnnotationVersion} {
		if wanted := want.GetAnnotations()[key]; have.GetAnnotations()[key] != wanted {
			differ[key] = wanted
		}
	}
	return differ
}

// statusChanges are the fields of Berth's own that differ; nil for one that has
// to go.
func statusChanges(have, want *unstructured.Unstructured) map[string]any {
	haveStatus, _ := have.Object["status"].(map[string]any)
	wantStatus, _ := want.Object["status"].(map[string]any)
	differ := map[string]any{}
	for _, field := range statusFields {
		h, isThere := haveStatus[field]
		w, isWanted := wantStatus[field]
		switch {
		case isWanted && !reflect.DeepEqual(h, w):
			differ[field] = w
		case isThere && !isWanted:
			differ[field] = nil
		}
	}
	return differ
}

// jsonPatch changes the object only if it still is the one with that uid and
// shows that version.
func jsonPatch(uid, version string, annotations, status map[string]any) ([]byte, error) {
	annotationPath := func(key string) string { return "/metadata/annotations/" + berth.EscapePointer(key) }
	operations := []operation{
		{Op: "test", Path: "/metadata/uid", Value: uid},
		{Op: "test", Path: annotationPath(berth.AnnotationVersion), Value: version},
	}
	for _, key := range []string{berth.AnnotationID, berth.AnnotationVersion} {
		if value, ok := annotations[key]; ok {
			operations = append(operations, operation{Op: "add", Path: annotationPath(key), Value: value})
		}
	}
	for _, field := range statusFields {
		value, ok := status[field]
		switch {
		case ok && value != nil:
			operations = append(operations, operation{Op: "add", Path: "/status/" + field, Value: value})
		case ok:
			operations = append(operations, operation{Op: "remove", Path: "/status/" + field})
		}
	}
	return json.Marshal(operations)
}

// mergePatch is for an object that lacks what a JSON Patch could test. It
// changes the object only if nobody has since it was read.
func mergePatch(have *unstructured.Unstructured, annotations, status map[string]any) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid":             have.GetUID(),
			"resourceVersion": have.GetResourceVersion(),
			"annotations":     annotations,
		},
		"status": status,
	})
}
