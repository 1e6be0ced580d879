package berth

import (
	"fmt"
	"strings"
)

// OrderedNames reads one value of a spec's orderedResources: names separated by
// commas, each "namespace/name" or, for a cluster-scoped object, "name". Spaces
// around a name do not count; empty entries are left out.
func OrderedNames(value string) []string {
	var names []string
	for entry := range strings.SplitSeq(value, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			names = append(names, entry)
		}
	}
	return names
}

// orderProblems lists what is wrong with orderedResources; pointers are relative
// to the spec. Which kinds there are is for the cluster to say.
func (s Spec) orderProblems() []FieldError {
	var problems []FieldError
	for _, resource := range sortedKeys(s.OrderedResources) {
		at := "/orderedResources/" + EscapePointer(resource)
		refuse := func(format string, args ...any) {
			problems = append(problems, FieldError{Pointer: at, Code: "invalid", Detail: fmt.Sprintf(format, args...)})
		}
		if strings.TrimSpace(resource) == "" {
			refuse("the name of a resource cannot be empty")
		}
		names, seen := OrderedNames(s.OrderedResources[resource]), map[string]bool{}
		if len(names) == 0 {
			refuse("names no object")
		}
		for _, name := range names {
			switch {
			case strings.ContainsRune(name, 0):
				refuse(noNUL)
			case strings.Count(name, "/") > 1 || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/"):
				refuse("%q is neither namespace/name nor name", name)
			case seen[name]:
				refuse("%q stands twice", name)
			}
			seen[name] = true
		}
	}
	return problems
}
