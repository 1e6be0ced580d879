package backup

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
)

func TestReadPolicy(t *testing.T) {
	t.Parallel()
	good := "version: v1\nincludeExcludePolicy:\n  includedClusterScopedResources: [nodes]\n  excludedNamespaceScopedResources: [secrets]\n"
	for name, test := range map[string]struct {
		text     string
		oldStyle bool
		want     []string // parts of the problems, in order
	}{
		"good":               {good, false, nil},
		"only a version":     {"version: v1\n", true, nil},
		"beside old filters": {good, true, []string{"cannot stand beside includedResources"}},
		"no version":         {"includeExcludePolicy: {}\n", false, []string{`the version is ""`}},
		"no YAML":            {"a: [", false, []string{"yaml"}},
		"an unknown field":   {"version: v1\nincludes: []\n", false, []string{"includes"}},
		"everything at once": {"version: v2\nvolumePolicies:\n- conditions: {}\n  action: {type: skip}\nnamespacedFilterPolicies: []\nclusterScopedFilterPolicy: {}\nincludeExcludePolicy:\n  includedNamespaceScopedResources: ['*', pods]\n  excludedNamespaceScopedResources: ['*', pods]\n", false,
			[]string{"act on clusterScopedFilterPolicy", "act on namespacedFilterPolicies", "act on volumePolicies", `excludedNamespaceScopedResources: "pods" is also`, "excludedNamespaceScopedResources: *", "includedNamespaceScopedResources: *", `the version is "v2"`}},
	} {
		_, problems := readPolicy(test.text, test.oldStyle)
		if !slices.EqualFunc(test.want, problems, func(part, problem string) bool { return strings.Contains(problem, part) }) {
			t.Errorf("%s: %q, want %q", name, problems, test.want)
		}
	}
	p, _ := readPolicy(good, false)
	want := policy{IncludedClusterScopedResources: []string{"nodes"}, ExcludedNamespaceScopedResources: []string{"secrets"}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("the policy (-want +got):\n%s", diff)
	}
}

// The spec's own lists come first.
func TestAPolicyAddsToTheSpec(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec berth.Spec
		also policy
		want string
	}{
		"excludes":                 {berth.Spec{}, policy{ExcludedNamespaceScopedResources: []string{"cm", "unicorns"}}, "events namespaces deployments.apps deployments.shop.example.com"},
		"includes":                 {berth.Spec{}, policy{IncludedNamespaceScopedResources: []string{"cm"}, IncludedClusterScopedResources: []string{"no"}}, "configmaps namespaces nodes"},
		"an include of the spec":   {berth.Spec{IncludedNamespaceScopedResources: []string{"cm"}}, policy{ExcludedNamespaceScopedResources: []string{"cm"}}, "configmaps namespaces"},
		"a star of the spec":       {berth.Spec{IncludedNamespaceScopedResources: []string{"*"}}, policy{ExcludedNamespaceScopedResources: []string{"cm"}}, "configmaps events namespaces deployments.apps deployments.shop.example.com"},
		"an exclude of the spec":   {berth.Spec{ExcludedNamespaceScopedResources: []string{"cm"}}, policy{IncludedNamespaceScopedResources: []string{"cm", "ev"}}, "events namespaces"},
		"more than the spec's own": {berth.Spec{IncludedNamespaceScopedResources: []string{"cm"}}, policy{IncludedNamespaceScopedResources: []string{"ev"}}, "configmaps events namespaces"},
	} {
		var got []string
		for _, r := range filter(test.spec, test.also, berth.ScopeSome, aCluster).resources {
			got = append(got, r.String())
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
