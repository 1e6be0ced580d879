package backup

import (
	"encoding/json"
	"io"
	"sync"
)

// results are the errors and warnings of a run, by namespace, as
// <name>-results.gz holds them. Each is a line of the log as well.
type results struct {
	mu       sync.Mutex
	log      *runLog
	errors   issues
	warnings issues
}

// issues is Velero's Result.
type issues struct {
	Velero     []string            `json:"velero,omitempty"`
	Cluster    []string            `json:"cluster,omitempty"`
	Namespaces map[string][]string `json:"namespaces,omitempty"`
	count      int
}

func (i *issues) add(namespace, text string) {
	i.count++
	if namespace == "" {
		i.Cluster = append(i.Cluster, text)
		return
	}
	if i.Namespaces == nil {
		i.Namespaces = map[string][]string{}
	}
	i.Namespaces[namespace] = append(i.Namespaces[namespace], text)
}

// error notes what is missing in the backup; an empty namespace means the cluster.
func (r *results) error(namespace, text string) {
	r.log.error(text, "namespace", namespace)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors.add(namespace, text)
}

// warning notes what a reader of the backup should know.
func (r *results) warning(namespace, text string) {
	r.log.warning(text, "namespace", namespace)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings.add(namespace, text)
}

func (r *results) counts() (errors, warnings int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errors.count, r.warnings.count
}

func (r *results) writeTo(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return json.NewEncoder(w).Encode(map[string]issues{"errors": r.errors, "warnings": r.warnings})
}
