package backup

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-backup/berth"
)

// aCluster is a small one, in the order of discovery.
var aCluster = []resource{
	{version: "v1", plural: "configmaps", singular: "configmap", kind: "ConfigMap", shortNames: []string{"cm"}, namespaced: true, collectable: true},
	{version: "v1", plural: "events", singular: "event", kind: "Event", shortNames: []string{"ev"}, namespaced: true, collectable: true},
	{version: "v1", plural: "namespaces", singular: "namespace", kind: "Namespace", shortNames: []string{"ns"}, collectable: true},
	{version: "v1", plural: "nodes", singular: "node", kind: "Node", shortNames: []string{"no"}, collectable: true},
	{version: "v1", plural: "bindings", singular: "binding", kind: "Binding", namespaced: true},
	{group: "apps", version: "v1", plural: "deployments", singular: "deployment", kind: "Deployment", shortNames: []string{"deploy"}, namespaced: true, collectable: true},
	{group: "events.k8s.io", version: "v1", plural: "events", singular: "event", kind: "Event", shortNames: []string{"ev"}, namespaced: true, collectable: true},
	{group: "rbac", version: "v1", plural: "clusterroles", singular: "clusterrole", kind: "ClusterRole", collectable: true},
	{group: "shop.example.com", version: "v2", plural: "deployments", singular: "deployment", kind: "Deployment", namespaced: true, collectable: true},
}

const (
	allNamespaced = "configmaps events deployments.apps deployments.shop.example.com"
	allCluster    = "namespaces nodes clusterroles.rbac"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	everything := "configmaps events namespaces nodes deployments.apps clusterroles.rbac deployments.shop.example.com"
	for name, test := range map[string]struct {
		spec  berth.Spec
		scope berth.ScopeKind
		want  string
	}{
		"no filter, everything":                    {berth.Spec{}, berth.ScopeEverything, everything},
		"no filter, some namespaces":               {berth.Spec{}, berth.ScopeSome, "configmaps events namespaces deployments.apps deployments.shop.example.com"},
		"no filter, everything but":                {berth.Spec{}, berth.ScopeEverythingBut, "configmaps events namespaces deployments.apps deployments.shop.example.com"},
		"no filter, no namespace":                  {berth.Spec{}, berth.ScopeNone, everything},
		"old: included":                            {berth.Spec{IncludedResources: []string{"configmaps", "nodes"}}, berth.ScopeEverything, "configmaps nodes"},
		"old: included, some namespaces":           {berth.Spec{IncludedResources: []string{"configmaps", "nodes", "namespaces"}}, berth.ScopeSome, "configmaps namespaces"},
		"old: included, asked for":                 {berth.Spec{IncludedResources: []string{"configmaps", "nodes"}, IncludeClusterResources: &yes}, berth.ScopeSome, "configmaps nodes"},
		"old: all, asked for":                      {berth.Spec{IncludeClusterResources: &yes}, berth.ScopeSome, everything},
		"old: all, refused":                        {berth.Spec{IncludeClusterResources: &no}, berth.ScopeEverything, allNamespaced},
		"old: star":                                {berth.Spec{IncludedResources: []string{"*"}}, berth.ScopeEverything, everything},
		"old: excluded":                            {berth.Spec{ExcludedResources: []string{"deploy", "no"}}, berth.ScopeEverything, "configmaps events namespaces clusterroles.rbac deployments.shop.example.com"},
		"old: only unknown ones":                   {berth.Spec{IncludedResources: []string{"unicorns"}}, berth.ScopeEverything, ""},
		"new: cluster-scoped listed":               {berth.Spec{IncludedClusterScopedResources: []string{"clusterroles"}}, berth.ScopeSome, "configmaps events namespaces deployments.apps clusterroles.rbac deployments.shop.example.com"},
		"new: cluster-scoped all":                  {berth.Spec{IncludedClusterScopedResources: []string{"*"}}, berth.ScopeSome, everything},
		"new: cluster-scoped none":                 {berth.Spec{ExcludedClusterScopedResources: []string{"*"}}, berth.ScopeEverything, allNamespaced},
		"new: cluster-scoped but one":              {berth.Spec{IncludedClusterScopedResources: []string{"*"}, ExcludedClusterScopedResources: []string{"nodes"}}, berth.ScopeSome, "configmaps events namespaces deployments.apps clusterroles.rbac deployments.shop.example.com"},
		"new: namespaced listed":                   {berth.Spec{IncludedNamespaceScopedResources: []string{"ConfigMap"}}, berth.ScopeEverything, "configmaps namespaces"},
		"new: namespaced star counts as no filter": {berth.Spec{IncludedNamespaceScopedResources: []string{"*"}}, berth.ScopeEverything, everything},
		"new: namespaced excluded":                 {berth.Spec{ExcludedNamespaceScopedResources: []string{"configmaps", "deployments"}}, berth.ScopeEverything, "events namespaces deployments.shop.example.com"},
		"new: namespaced none":                     {berth.Spec{ExcludedNamespaceScopedResources: []string{"*"}, IncludedClusterScopedResources: []string{"*"}}, berth.ScopeEverything, allCluster},
		"an exclude takes both cohabitants":        {berth.Spec{ExcludedResources: []string{"events"}, IncludedResources: []string{"*"}}, berth.ScopeSome, "configmaps namespaces deployments.apps deployments.shop.example.com"},
		"the cohabitant that is named":             {berth.Spec{IncludedResources: []string{"events.events.k8s.io"}}, berth.ScopeSome, "events.events.k8s.io"},
	} {
		var got []string
		for _, r := range filter(test.spec, policy{}, test.scope, aCluster).resources {
			got = append(got, r.String())
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestNamesOfResources(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"configmaps": "configmaps", "ConfigMap": "configmaps", "cm": "configmaps", "CM": "configmaps",
		"deployments": "deployments.apps", "deploy": "deployments.apps", "Deployment.apps": "deployments.apps",
		"deployments.shop.example.com": "deployments.shop.example.com", "deployments.v2.shop.example.com": "deployments.shop.example.com",
		"deployments.v1.shop.example.com": "", "deployments.nowhere": "", "unicorns": "", "": "",
		"ev.events.k8s.io": "events.events.k8s.io",
	} {
		r, ok := lookUp(name, aCluster)
		if ok != (want != "") || ok && r.String() != want {
			t.Errorf("%q means %q", name, r)
		}
	}
}

func TestEntriesThatNameNothingAreWarnedOf(t *testing.T) {
	t.Parallel()
	got := filter(berth.Spec{IncludedResources: []string{"unicorns", "bindings", "pods.nowhere"}, ExcludedResources: []string{"cm"}}, policy{}, berth.ScopeSome, aCluster)
	if len(got.warnings) != 3 || !slices.ContainsFunc(got.warnings, func(s string) bool { return strings.HasPrefix(s, `includedResources: "bindings"`) }) {
		t.Errorf("warnings: %q", got.warnings)
	}
}

func TestPlanListsEachNamespaceOrTheWholeCluster(t *testing.T) {
	t.Parallel()
	cluster := found{resources: aCluster}
	for name, test := range map[string]struct {
		spec  berth.Spec
		names []string
		want  string
	}{
		"some": {berth.Spec{IncludedNamespaces: []string{"a", "b"}, IncludedResources: []string{"cm", "deploy", "ns"}}, []string{"a", "b"},
			"namespaces, configmaps in namespace a, configmaps in namespace b, deployments.apps in namespace a, deployments.apps in namespace b"},
		"everything but": {berth.Spec{ExcludedNamespaces: []string{"c"}, IncludedResources: []string{"cm", "ns"}}, []string{"a", "b"},
			"namespaces, configmaps"},
		"everything of nothing": {berth.Spec{IncludedResources: []string{"cm", "ns", "nodes"}}, nil, "nodes"},
		"an empty pattern":      {berth.Spec{IncludedNamespaces: []string{"x-*"}, IncludedResources: []string{"cm", "ns"}}, nil, ""},
	} {
		p, err := planOf(berth.Run{Spec: test.spec, Contents: berth.Contents{Names: test.names}}, policy{}, cluster)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range slices.Concat(p.objects, p.namespaceObjects) {
			got = append(got, l.String())
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestPlanRefusesASpecThatCannotBeFollowed(t *testing.T) {
	t.Parallel()
	_, err := planOf(berth.Run{Spec: berth.Spec{IncludedNamespaces: []string{"a**"}}}, policy{}, found{resources: aCluster})
	failure, ok := err.(*Failure)
	if !ok || failure.Reason != ReasonInvalidSpec {
		t.Errorf("the error is %v", err)
	}
}
