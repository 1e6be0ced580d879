package backup

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/berth-backup/berth"
)

// head is what must be known of an object to decide on it and to name it.
type head struct {
	namespace, name string
	// excluded objects have the label that keeps them out of every backup.
	excluded bool
	// deleting objects have a deletionTimestamp.
	deleting bool
	// The items of a list lack their apiVersion and kind, those of custom
	// resources do not.
	hasAPIVersion, hasKind bool
	rawLabels              []byte
}

// headOf reads an object's head from its JSON. It keeps parts of raw.
func headOf(raw []byte) (head, error) {
	var h head
	err := fields(raw, func(key, value []byte) error {
		switch string(key) {
		case `"apiVersion"`:
			h.hasAPIVersion = true
		case `"kind"`:
			h.hasKind = true
		case `"metadata"`:
			return h.readMetadata(value)
		}
		return nil
	})
	if err == nil && h.name == "" {
		err = fmt.Errorf("%w: an object without a name", errBadJSON)
	}
	return h, err
}

func (h *head) readMetadata(raw []byte) error {
	return fields(raw, func(key, value []byte) (err error) {
		switch string(key) {
		case `"name"`:
			h.name, err = text(value)
		case `"namespace"`:
			h.namespace, err = text(value)
		case `"deletionTimestamp"`:
			h.deleting = string(value) != "null"
		case `"labels"`:
			if string(value) != "null" {
				h.rawLabels = value
				h.excluded = h.labels()[berth.LabelExclude] == "true"
			}
		}
		return err
	})
}

// labels decodes the object's labels; ones that are no map of strings count as none.
func (h *head) labels() map[string]string {
	var labels map[string]string
	if json.Unmarshal(h.rawLabels, &labels) != nil {
		return nil
	}
	return labels
}

// key names the object among those of its resource, as Velero's list of
// resources spells it: "namespace/name", or "name" where there is no namespace.
func (h *head) key() string {
	if h.namespace == "" {
		return h.name
	}
	return h.namespace + "/" + h.name
}

// opening is what stands before an item's own fields in the archive: the brace
// and what the list left out, so that the whole equals the answer to a GET.
func opening(r resource, h head) string {
	var b strings.Builder
	b.WriteString("{")
	if !h.hasAPIVersion {
		b.WriteString(`"apiVersion":"` + r.apiVersion() + `",`)
	}
	if !h.hasKind {
		b.WriteString(`"kind":"` + r.kind + `",`)
	}
	return b.String()
}

// paths are the two places of an object in the archive: the plain one, which
// every version of Velero reads, and the one that names the version.
func paths(r resource, h head) (plain, versioned string, err error) {
	place := "cluster"
	if r.namespaced {
		if !isSegment(h.namespace) {
			return "", "", fmt.Errorf("%q cannot be a folder of the archive", h.namespace)
		}
		place = "namespaces/" + h.namespace
	}
	if !isSegment(h.name) {
		return "", "", fmt.Errorf("%q cannot be a file of the archive", h.name)
	}
	folder, file := "resources/"+r.String()+"/", place+"/"+h.name+".json"
	return folder + file, folder + r.version + "-preferredversion/" + file, nil
}

// isSegment says whether s is safe as one segment of a path. Kubernetes gives
// no object another name, an aggregated API may.
func isSegment(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}
