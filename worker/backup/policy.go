package backup

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/berth-backup/berth"
)

// policy is the include/exclude part of a resource policy: lists that count where
// the spec's own say nothing (Velero's IncludeExcludePolicy).
type policy struct {
	IncludedClusterScopedResources   []string `json:"includedClusterScopedResources"`
	ExcludedClusterScopedResources   []string `json:"excludedClusterScopedResources"`
	IncludedNamespaceScopedResources []string `json:"includedNamespaceScopedResources"`
	ExcludedNamespaceScopedResources []string `json:"excludedNamespaceScopedResources"`
}

// policyVersion is the only one that there is.
const policyVersion = "v1"

// Validate lists what only the cluster can say against a spec. The namespace is
// that of the Backup objects, where resource policies are.
func (c *Cluster) Validate(ctx context.Context, spec berth.Spec, namespace string) (problems []string, err error) {
	_, problems, err = c.policyOf(ctx, spec, namespace)
	return problems, err
}

// policyOf reads the policy that a spec names, and all that is wrong with it.
func (c *Cluster) policyOf(ctx context.Context, spec berth.Spec, namespace string) (policy, []string, error) {
	if spec.ResourcePolicy == nil {
		return policy{}, nil, nil
	}
	name := namespace + "/" + spec.ResourcePolicy.Name
	raw, err := c.get(ctx, resource{version: "v1", plural: "configmaps", namespaced: true}, namespace, spec.ResourcePolicy.Name)
	switch {
	case statusOf(err) == http.StatusNotFound:
		return policy{}, []string{fmt.Sprintf("resource policy: there is no ConfigMap %s", name)}, nil
	case err != nil:
		return policy{}, nil, fmt.Errorf("read the resource policy %s: %w", name, err)
	}
	var configMap struct {
		Data map[string]string `json:"data"`
	}
	if err := json.Unmarshal(raw, &configMap); err != nil {
		return policy{}, nil, fmt.Errorf("read the resource policy %s: %w", name, err)
	}
	if len(configMap.Data) != 1 {
		return policy{}, []string{fmt.Sprintf("resource policy: the ConfigMap %s has %d keys, it must have one", name, len(configMap.Data))}, nil
	}
	var text string
	for _, text = range configMap.Data {
	}
	p, problems := readPolicy(text, oldStyle(spec))
	for i := range problems {
		problems[i] = fmt.Sprintf("resource policy %s: %s", name, problems[i])
	}
	return p, problems, nil
}

// readPolicy reads the text of a policy. What would act on volumes is refused by
// name: a backup that leaves their data out must not look as if it had it.
func readPolicy(text string, besideOldStyle bool) (policy, []string) {
	var read struct {
		Version                   string            `json:"version"`
		VolumePolicies            []json.RawMessage `json:"volumePolicies"`
		IncludeExcludePolicy      *policy           `json:"includeExcludePolicy"`
		ClusterScopedFilterPolicy json.RawMessage   `json:"clusterScopedFilterPolicy"`
		NamespacedFilterPolicies  json.RawMessage   `json:"namespacedFilterPolicies"`
	}
	if err := yaml.UnmarshalStrict([]byte(text), &read); err != nil {
		return policy{}, []string{err.Error()}
	}
	var problems []string
	if read.Version != policyVersion {
		problems = append(problems, fmt.Sprintf("the version is %q, not %s", read.Version, policyVersion))
	}
	for name, set := range map[string]bool{
		"volumePolicies": len(read.VolumePolicies) > 0, "clusterScopedFilterPolicy": read.ClusterScopedFilterPolicy != nil,
		"namespacedFilterPolicies": read.NamespacedFilterPolicies != nil,
	} {
		if set {
			problems = append(problems, fmt.Sprintf("Berth does not act on %s yet", name))
		}
	}
	if p := read.IncludeExcludePolicy; p != nil {
		if besideOldStyle {
			problems = append(problems, "includeExcludePolicy cannot stand beside includedResources, excludedResources and includeClusterResources")
		}
		problems = append(problems, p.problems()...)
		slices.Sort(problems)
		return *p, problems
	}
	slices.Sort(problems)
	return policy{}, problems
}

func (p policy) problems() []string {
	var problems []string
	for _, pair := range []struct {
		scope             string
		includes, exclude []string
	}{
		{"ClusterScopedResources", p.IncludedClusterScopedResources, p.ExcludedClusterScopedResources},
		{"NamespaceScopedResources", p.IncludedNamespaceScopedResources, p.ExcludedNamespaceScopedResources},
	} {
		if slices.Contains(pair.includes, "*") {
			problems = append(problems, fmt.Sprintf("included%s: * is not for a policy", pair.scope))
		}
		for _, entry := range pair.exclude {
			switch {
			case entry == "*":
				problems = append(problems, fmt.Sprintf("excluded%s: * is not for a policy", pair.scope))
			case slices.Contains(pair.includes, entry):
				problems = append(problems, fmt.Sprintf("excluded%s: %q is also among the includes", pair.scope, entry))
			}
		}
	}
	return problems
}

// combine adds a policy's lists to those of a spec, which come first: an entry
// that one of the spec's lists has already is left out.
func combine(include, exclude selection, p, q []string, all []resource) (selection, selection) {
	add := func(to selection, entries []string) selection {
		for _, entry := range entries {
			r, found := lookUp(entry, all)
			if name := r.String(); found && !include.all && !include.names[name] && !exclude.all && !exclude.names[name] {
				to.given = true
				to.names[name] = true
			}
		}
		return to
	}
	exclude = add(exclude, q)
	include = add(include, p)
	return include, exclude
}
