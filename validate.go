package berth

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Validate lists everything that is wrong with a request as far as it can be
// told without the cluster and without rows; nil if nothing is.
func (r Request) Validate() []FieldError {
	var problems []FieldError
	refuse := func(pointer, code, format string, args ...any) {
		problems = append(problems, FieldError{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, args...)})
	}
	if r.Name != "" {
		for _, problem := range validation.IsDNS1123Subdomain(r.Name) {
			refuse("/name", "invalid", "%s", problem)
		}
	}
	if r.Cluster != "" {
		for _, problem := range validation.IsDNS1123Label(r.Cluster) {
			refuse("/cluster", "invalid", "%s", problem)
		}
	}
	problems = append(problems, schedulingProblems(&r.Priority, r.NotBefore, r.StartDeadline, false)...)
	problems = append(problems, labelProblems("/labels", r.Labels)...)
	problems = append(problems, annotationProblems("/annotations", r.Annotations)...)
	for _, p := range r.Spec.Validate() {
		p.Pointer = "/spec" + p.Pointer
		problems = append(problems, p)
	}
	return problems
}

// Validate lists everything that is wrong with an edit as far as it can be told
// without the backup.
func (e Edit) Validate() []FieldError {
	return schedulingProblems(e.Priority, e.NotBefore, e.StartDeadline, true)
}

// schedulingProblems checks what decides about a place in the queue. removable
// says that the zero time means that there is to be none.
func schedulingProblems(priority *int, notBefore, startDeadline *time.Time, removable bool) []FieldError {
	var problems []FieldError
	if priority != nil && (*priority < -MaxPriority || *priority > MaxPriority) {
		problems = append(problems, outOfRange("/priority", -MaxPriority, MaxPriority))
	}
	if isSet(notBefore) && isSet(startDeadline) && !startDeadline.After(*notBefore) {
		problems = append(problems, FieldError{Pointer: "/startDeadline", Code: "conflict", Detail: "startDeadline must be later than notBefore"})
	}
	for _, given := range []struct {
		pointer string
		at      *time.Time
	}{{"/notBefore", notBefore}, {"/startDeadline", startDeadline}} {
		if removable && given.at != nil && given.at.IsZero() {
			continue
		}
		problems = append(problems, TimeProblems(given.pointer, given.at)...)
	}
	return problems
}

// What a time may be: further away than anybody means, and so near that what is
// predicted from it, centuries of runs later, still is a date of four digits.
const firstYear, lastYear = 2000, 9000

// TimeProblems says what is wrong with a time that is asked for; nil is none.
func TimeProblems(pointer string, at *time.Time) []FieldError {
	if at == nil || at.Year() >= firstYear && at.Year() <= lastYear {
		return nil
	}
	return []FieldError{{Pointer: pointer, Code: "invalid", Detail: fmt.Sprintf("must be a time from %d to %d", firstYear, lastYear)}}
}

func isSet(at *time.Time) bool { return at != nil && !at.IsZero() }

func outOfRange(pointer string, least, most int) FieldError {
	return FieldError{Pointer: pointer, Code: "invalid", Detail: fmt.Sprintf("must be an integer from %d to %d", least, most)}
}

// Validate lists everything that is wrong with a spec as far as it can be told
// without the cluster and without rows; nil if nothing is. Pointers are
// relative to the spec.
func (s Spec) Validate() []FieldError {
	_, problems := ScopeOf(s.IncludedNamespaces, s.ExcludedNamespaces)
	refuse := func(pointer, code, format string, args ...any) {
		problems = append(problems, FieldError{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, args...)})
	}
	problems = append(problems, labelProblems("/metadata/labels", s.Metadata.Labels)...)

	oldStyle := []entryList{{"includedResources", s.IncludedResources}, {"excludedResources", s.ExcludedResources}}
	newStyle := []entryList{
		{"includedClusterScopedResources", s.IncludedClusterScopedResources},
		{"excludedClusterScopedResources", s.ExcludedClusterScopedResources},
		{"includedNamespaceScopedResources", s.IncludedNamespaceScopedResources},
		{"excludedNamespaceScopedResources", s.ExcludedNamespaceScopedResources},
	}
	given := func(l entryList) bool { return len(l.entries) > 0 }
	if slices.ContainsFunc(newStyle, given) {
		for _, l := range slices.DeleteFunc(slices.Clone(oldStyle), func(l entryList) bool { return !given(l) }) {
			refuse("/"+l.name, "conflict", "%s cannot stand beside the lists for cluster-scoped and namespace-scoped resources", l.name)
		}
		if s.IncludeClusterResources != nil {
			refuse("/includeClusterResources", "conflict", "includeClusterResources cannot stand beside the lists for cluster-scoped and namespace-scoped resources")
		}
	}
	for _, pair := range [][2]entryList{{oldStyle[0], oldStyle[1]}, {newStyle[0], newStyle[1]}, {newStyle[2], newStyle[3]}} {
		problems = append(problems, pairProblems(pair[0], pair[1])...)
	}

	if s.StorageLocation != "" {
		for _, problem := range validation.IsDNS1123Subdomain(s.StorageLocation) {
			refuse("/storageLocation", "invalid", "%s", problem)
		}
	}
	if s.LabelSelector != nil && len(s.OrLabelSelectors) > 0 {
		refuse("/labelSelector", "conflict", "labelSelector and orLabelSelectors exclude each other")
		refuse("/orLabelSelectors", "conflict", "labelSelector and orLabelSelectors exclude each other")
	}
	problems = append(problems, selectorProblems("/labelSelector", s.LabelSelector)...)
	for i, selector := range s.OrLabelSelectors {
		pointer := fmt.Sprintf("/orLabelSelectors/%d", i)
		if selector == nil {
			refuse(pointer, "invalid", "a selector cannot be null")
			continue
		}
		problems = append(problems, selectorProblems(pointer, selector)...)
	}

	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"ttl", s.TTL.Duration}, {"csiSnapshotTimeout", s.CSISnapshotTimeout.Duration}, {"itemOperationTimeout", s.ItemOperationTimeout.Duration}} {
		if d.value < 0 {
			refuse("/"+d.name, "invalid", "%s cannot be negative", d.name)
		}
	}
	if key := s.VolumeGroupSnapshotLabelKey; key != "" {
		for _, problem := range validation.IsQualifiedName(key) {
			refuse("/volumeGroupSnapshotLabelKey", "invalid", "%s", problem)
		}
	}
	problems = append(problems, policyProblems(s.ResourcePolicy)...)
	problems = append(problems, s.orderProblems()...)
	problems = append(problems, s.Hooks.problems()...)
	return append(problems, s.unsupported()...)
}

// entryList is one list of a spec that names resources.
type entryList struct {
	name    string
	entries []string
}

// pairProblems checks what is included and what is excluded beside each other.
func pairProblems(include, exclude entryList) []FieldError {
	var problems []FieldError
	refuse := func(list entryList, i int, code, format string, args ...any) {
		problems = append(problems, FieldError{Pointer: fmt.Sprintf("/%s/%d", list.name, i), Code: code, Detail: fmt.Sprintf(format, args...)})
	}
	if i := slices.Index(include.entries, "*"); i >= 0 && len(include.entries) > 1 {
		refuse(include, i, "invalid", "* stands alone or not at all")
	}
	for i, entry := range exclude.entries {
		switch {
		case entry == "*" && (exclude.name == "excludedResources" || len(include.entries) > 0):
			refuse(exclude, i, "invalid", "* among the excludes leaves nothing")
		case slices.Contains(include.entries, entry):
			refuse(exclude, i, "conflict", "%q is also among the includes", entry)
		}
	}
	for _, l := range []entryList{include, exclude} {
		for i, entry := range l.entries {
			switch {
			case entry == "":
				refuse(l, i, "invalid", "the name of a resource cannot be empty")
			case strings.ContainsRune(entry, 0):
				refuse(l, i, "invalid", noNUL)
			}
		}
	}
	return problems
}

// policyProblems checks the reference to a resource policy; what it says is for
// the cluster to tell.
func policyProblems(policy *ResourcePolicy) []FieldError {
	if policy == nil {
		return nil
	}
	var problems []FieldError
	if group := policy.APIGroup; group != nil && *group != "" || !strings.EqualFold(policy.Kind, "configmap") {
		problems = append(problems, FieldError{Pointer: "/resourcePolicy/kind", Code: "invalid", Detail: "a resource policy is a ConfigMap"})
	}
	for _, problem := range validation.IsDNS1123Subdomain(policy.Name) {
		problems = append(problems, FieldError{Pointer: "/resourcePolicy/name", Code: "invalid", Detail: problem})
	}
	return problems
}

// unsupported names the fields that ask for something that Berth does not do:
// they are refused, never ignored. csiSnapshotTimeout and itemOperationTimeout
// pass, since they only bound what does not happen.
func (s Spec) unsupported() []FieldError {
	isTrue := func(b *bool) bool { return b != nil && *b }
	uploader := strings.TrimSpace(string(s.UploaderConfig))
	var problems []FieldError
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"snapshotVolumes", isTrue(s.SnapshotVolumes)},
		{"volumeSnapshotLocations", len(s.VolumeSnapshotLocations) > 0},
		{"defaultVolumesToRestic", isTrue(s.DefaultVolumesToRestic)},
		{"defaultVolumesToFsBackup", isTrue(s.DefaultVolumesToFsBackup)},
		{"snapshotMoveData", isTrue(s.SnapshotMoveData)},
		{"datamover", s.DataMover != ""},
		{"uploaderConfig", uploader != "" && uploader != "null" && uploader != "{}"},
	} {
		if f.set {
			problems = append(problems, FieldError{Pointer: "/" + f.name, Code: "unsupported", Detail: "Berth does not act on " + f.name + " yet"})
		}
	}
	return problems
}

func labelProblems(pointer string, labels map[string]string) []FieldError {
	var problems []FieldError
	for _, key := range sortedKeys(labels) {
		for _, problem := range validation.IsQualifiedName(key) {
			problems = append(problems, FieldError{Pointer: pointer + "/" + EscapePointer(key), Code: "invalid", Detail: "key: " + problem})
		}
		for _, problem := range validation.IsValidLabelValue(labels[key]) {
			problems = append(problems, FieldError{Pointer: pointer + "/" + EscapePointer(key), Code: "invalid", Detail: "value: " + problem})
		}
	}
	return problems
}

// noNUL refuses the one character that no text and no JSON in Postgres can hold.
const noNUL = "the character U+0000 is not allowed"

// maxAnnotationBytes is Kubernetes' limit on all annotations of one object.
const maxAnnotationBytes = 256 << 10

func annotationProblems(pointer string, annotations map[string]string) []FieldError {
	var problems []FieldError
	size := 0
	for _, key := range sortedKeys(annotations) {
		size += len(key) + len(annotations[key])
		for _, problem := range validation.IsQualifiedName(strings.ToLower(key)) {
			problems = append(problems, FieldError{Pointer: pointer + "/" + EscapePointer(key), Code: "invalid", Detail: "key: " + problem})
		}
		if strings.ContainsRune(annotations[key], 0) {
			problems = append(problems, FieldError{Pointer: pointer + "/" + EscapePointer(key), Code: "invalid", Detail: "value: " + noNUL})
		}
		if strings.HasPrefix(key, AnnotationPrefix) {
			problems = append(problems, FieldError{Pointer: pointer + "/" + EscapePointer(key), Code: "invalid", Detail: "key: " + AnnotationPrefix + " is reserved"})
		}
	}
	if size > maxAnnotationBytes {
		problems = append(problems, FieldError{Pointer: pointer, Code: "invalid", Detail: fmt.Sprintf("annotations take %d bytes, %d at most", size, maxAnnotationBytes)})
	}
	return problems
}

func selectorProblems(pointer string, selector *metav1.LabelSelector) []FieldError {
	if selector == nil {
		return nil
	}
	problems := labelProblems(pointer+"/matchLabels", selector.MatchLabels)
	expressions := &metav1.LabelSelector{MatchExpressions: selector.MatchExpressions}
	for _, e := range metav1validation.ValidateLabelSelector(expressions, metav1validation.LabelSelectorValidationOptions{}, nil) {
		problems = append(problems, FieldError{Pointer: pointer + "/" + fieldPointer(e.Field), Code: "invalid", Detail: e.ErrorBody()})
	}
	return problems
}

// fieldPointer writes a path of apimachinery, such as matchExpressions[0].key,
// as segments of a JSON pointer.
func fieldPointer(path string) string {
	return strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(path)
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// EscapePointer writes a key as one segment of a JSON pointer (RFC 6901).
func EscapePointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// GenerateName makes a name for a backup whose request has none:
// backup-<UTC yyyymmddhhmmss>-<5 letters of its id>.
func GenerateName(now time.Time, id uuid.UUID) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	suffix := make([]byte, 5)
	for i := range suffix {
		suffix[i] = letters[int(id[len(id)-1-i])%len(letters)]
	}
	return "backup-" + now.UTC().Format("20060102150405") + "-" + string(suffix)
}
