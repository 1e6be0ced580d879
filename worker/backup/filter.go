package backup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-backup/berth"
)

// filtered is which resources a backup takes.
type filtered struct {
	resources []resource
	// excluded says whether a resource may not even be taken since another needs it.
	excluded func(resource) bool
	// warnings name entries of the filters that match nothing.
	warnings []string
}

// filter applies a spec's resource filters, and those of its policy, to what a
// cluster has. The rules are Velero's, but for two. A backup of no namespace ("" alone) without a word
// on cluster-scoped resources takes them all, since it would be empty else. And
// an exclude that names one of two cohabiting resources excludes both.
func filter(spec berth.Spec, also policy, scope berth.ScopeKind, all []resource) filtered {
	var out filtered
	never := spec.IncludeClusterResources != nil && !*spec.IncludeClusterResources
	read := func(field string, entries []string) selection {
		s, unknown := selectionOf(entries, all)
		for _, entry := range unknown {
			out.warnings = append(out.warnings, fmt.Sprintf("%s: %q names nothing that this cluster has and that can be backed up", field, entry))
		}
		return s
	}
	var takes func(resource) bool
	if oldStyle(spec) {
		include, exclude := read("includedResources", spec.IncludedResources), read("excludedResources", spec.ExcludedResources)
		takes = oldRule(spec.IncludeClusterResources, scope, include, exclude)
		out.excluded = func(r resource) bool { return exclude.hasEither(r) || never && !r.namespaced }
	} else {
		includeCluster := read("includedClusterScopedResources", spec.IncludedClusterScopedResources)
		excludeCluster := read("excludedClusterScopedResources", spec.ExcludedClusterScopedResources)
		includeNamespaced := read("includedNamespaceScopedResources", spec.IncludedNamespaceScopedResources)
		excludeNamespaced := read("excludedNamespaceScopedResources", spec.ExcludedNamespaceScopedResources)
		includeCluster, excludeCluster = combine(includeCluster, excludeCluster, also.IncludedClusterScopedResources, also.ExcludedClusterScopedResources, all)
		includeNamespaced, excludeNamespaced = combine(includeNamespaced, excludeNamespaced, also.IncludedNamespaceScopedResources, also.ExcludedNamespaceScopedResources, all)
		takes = newRule(scope, includeCluster, excludeCluster, includeNamespaced, excludeNamespaced)
		out.excluded = func(r resource) bool {
			return r.namespaced && excludeNamespaced.hasEither(r) || !r.namespaced && excludeCluster.hasEither(r)
		}
	}
	taken := map[string]bool{}
	for _, r := range all {
		twin := cohabitants[r.String()]
		if r.collectable && takes(r) && (twin == "" || !taken[twin]) {
			taken[r.String()] = true
			out.resources = append(out.resources, r)
		}
	}
	return out
}

// oldStyle filters do not tell cluster-scoped and namespaced resources apart.
// No filter at all counts as the new style.
func oldStyle(spec berth.Spec) bool {
	return len(spec.IncludedResources) > 0 || len(spec.ExcludedResources) > 0 || spec.IncludeClusterResources != nil
}

func oldRule(clusterScoped *bool, scope berth.ScopeKind, include, exclude selection) func(resource) bool {
	return func(r resource) bool {
		switch {
		case exclude.hasEither(r):
			return false
		case !r.namespaced && clusterScoped != nil && !*clusterScoped:
			return false
		case !r.namespaced && clusterScoped == nil && !r.isNamespaces() && !wholeCluster(scope):
			return false
		}
		return include.empty() || include.has(r)
	}
}

func newRule(scope berth.ScopeKind, includeCluster, excludeCluster, includeNamespaced, excludeNamespaced selection) func(resource) bool {
	unfiltered := includeCluster.empty() && excludeCluster.empty() &&
		(includeNamespaced.empty() || includeNamespaced.all) && excludeNamespaced.empty()
	full := unfiltered && wholeCluster(scope)
	return func(r resource) bool {
		if r.namespaced {
			return !excludeNamespaced.hasEither(r) && (includeNamespaced.empty() || includeNamespaced.has(r))
		}
		return !excludeCluster.hasEither(r) && (full || r.isNamespaces() || includeCluster.has(r))
	}
}

// wholeCluster scopes take cluster-scoped resources without being asked to.
func wholeCluster(scope berth.ScopeKind) bool {
	return scope == berth.ScopeEverything || scope == berth.ScopeNone
}

// selection is one list of a filter, its names resolved.
type selection struct {
	all bool
	// given says that the list has entries: one whose entries all match
	// nothing is not an empty list, which would mean everything.
	given bool
	names map[string]bool
}

func (s selection) empty() bool         { return !s.given }
func (s selection) has(r resource) bool { return s.all || s.names[r.String()] }

// hasEither counts both of two cohabiting resources as named where one is.
func (s selection) hasEither(r resource) bool {
	return s.has(r) || s.names[cohabitants[r.String()]]
}

func selectionOf(entries []string, all []resource) (s selection, unknown []string) {
	s = selection{given: len(entries) > 0, names: map[string]bool{}}
	for _, entry := range entries {
		if entry == "*" {
			s.all = true
			continue
		}
		r, ok := lookUp(entry, all)
		if !ok || !r.collectable {
			unknown = append(unknown, entry)
			continue
		}
		s.names[r.String()] = true
	}
	return s, unknown
}

// lookUp finds the resource that a name means: its plural, singular or kind,
// in any case, alone or followed by its group ("deployments.apps") or version
// and group ("deployments.v1.apps"); failing that, its short name. Where
// several groups have it, the first in the cluster's order is meant.
func lookUp(name string, all []resource) (resource, bool) {
	name, group, _ := strings.Cut(strings.ToLower(name), ".")
	inGroup := func(r resource) bool {
		return group == "" || group == r.group || group == r.version+"."+r.group
	}
	byName := func(r resource) bool {
		return inGroup(r) && (name == r.plural || name == strings.ToLower(r.singular) || name == strings.ToLower(r.kind))
	}
	byShortName := func(r resource) bool { return inGroup(r) && slices.Contains(r.shortNames, name) }
	for _, matches := range []func(resource) bool{byName, byShortName} {
		if i := slices.IndexFunc(all, matches); i >= 0 {
			return all[i], true
		}
	}
	return resource{}, false
}
