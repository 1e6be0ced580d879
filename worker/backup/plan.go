package backup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-backup/berth"
)

// plan is what a run reads, decided before the first list.
type plan struct {
	// objects are listed together; namespaceObjects after them, where what is
	// found decides which namespaces are taken.
	objects, namespaceObjects []*listing
	// claimObjects are the claims, where no group has to be formed.
	claimObjects []*listing
	// chosen are the resources that the spec chooses, known all that the cluster
	// has and that can be backed up, by name.
	chosen, known map[string]resource
	excluded      func(resource) bool
	ledgers       *ledgers
	// ordered are the objects of orderedResources that the cluster knows the kind of.
	ordered          []orderedList
	volumeGroupLabel string
	hooks            []specHook
	// namespaces are the run's contents, leftOut those that a label excludes.
	namespaces, leftOut map[string]bool
	// selectors limit the objects to those that match one of them; none means all.
	selectors []labels.Selector
	// wide scopes also claim namespaces that appear while the run goes on.
	wide     bool
	scope    berth.Scope
	errors   []line
	warnings []line
}

// line is one line of the results; an empty namespace means the cluster.
type line struct{ namespace, text string }

// planOf decides what to list. It fails where a spec cannot be followed and
// where nothing is left to back up because what was named does not exist.
func planOf(run berth.Run, also policy, cluster found) (plan, error) {
	scope, problems := berth.ScopeOf(run.Spec.IncludedNamespaces, run.Spec.ExcludedNamespaces)
	if len(problems) > 0 {
		return plan{}, &Failure{Reason: ReasonInvalidSpec, Message: problems[0].Pointer + ": " + problems[0].Detail}
	}
	selectors, err := selectorsOf(run.Spec)
	if err != nil {
		return plan{}, &Failure{Reason: ReasonInvalidSpec, Message: err.Error()}
	}
	hooks, err := specHooksOf(run.Spec.Hooks, cluster.resources)
	if err != nil {
		return plan{}, &Failure{Reason: ReasonInvalidSpec, Message: err.Error()}
	}
	p := plan{
		scope: scope, selectors: selectors, wide: scope.Wide(), hooks: hooks,
		namespaces: setOf(run.Contents.Names), leftOut: setOf(run.Contents.Excluded),
		chosen: map[string]resource{}, known: map[string]resource{}, ledgers: newLedgers(),
		volumeGroupLabel: cmp.Or(run.Spec.VolumeGroupSnapshotLabelKey, defaultVolumeGroupLabel),
	}
	for _, failure := range cluster.failures {
		p.warnings = append(p.warnings, line{text: failure})
	}
	spec := run.Spec
	chosen := filter(spec, also, scope.Kind, cluster.resources)
	for _, warning := range chosen.warnings {
		p.warnings = append(p.warnings, line{text: warning})
	}
	p.excluded = chosen.excluded
	for _, r := range cluster.resources {
		if r.collectable {
			p.known[r.String()] = r
		}
	}
	for _, r := range chosen.resources {
		p.chosen[r.String()] = r
	}
	p.order(spec.OrderedResources, cluster.resources)
	p.noteContents(run.Contents)
	p.schedule(chosen.resources)
	if len(p.namespaces)+len(p.objects) == 0 && len(run.Contents.Missing) > 0 {
		return plan{}, &Failure{Reason: ReasonNothingLeft, Message: nothingLeft(run.Contents)}
	}
	return p, nil
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

func nothingLeft(contents berth.Contents) string {
	const shown = 10
	names := strings.Join(contents.Missing[:min(shown, len(contents.Missing))], ", ")
	if more := len(contents.Missing) - shown; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return "nothing to back up: no such namespace: " + names
}

// noteContents says in the results where the contents differ from what the
// spec names.
func (p *plan) noteContents(contents berth.Contents) {
	for _, name := range contents.Missing {
		p.errors = append(p.errors, line{name, fmt.Sprintf("namespace %s does not exist", name)})
	}
	for _, name := range contents.Excluded {
		p.warnings = append(p.warnings, line{name, fmt.Sprintf("namespace %s is left out: it has the label %s=true", name, berth.LabelExclude)})
	}
	if p.scope.Kind == berth.ScopeSome && len(contents.Names)+len(contents.Missing)+len(contents.Excluded) == 0 {
		p.warnings = append(p.warnings, line{text: "no namespace matches the patterns of the spec: the backup holds no namespace"})
	}
}

// schedule turns the chosen resources into listings.
func (p *plan) schedule(chosen []resource) {
	var objects, namespaceObjects []*listing
	selectors := p.queries()
	for _, r := range chosen {
		switch {
		case r.String() == resourcePods:
			continue // they are listed when the groups are formed
		case r.String() == resourceClaims:
			for _, place := range p.placesOf(r) {
				p.claimObjects = append(p.claimObjects, newListing(r, place, selectors, p.ledgers))
			}
			continue
		case r.isNamespaces():
			if len(p.namespaces) > 0 {
				// Selectors choose objects, and with them the namespaces that they
				// live in: all namespaces are read.
				namespaceObjects = append(namespaceObjects, newListing(r, "", []string{""}, p.ledgers))
			}
			continue
		}
		for _, place := range p.placesOf(r) {
			objects = append(objects, newListing(r, place, selectors, p.ledgers))
		}
	}
	if len(p.selectors) == 0 {
		objects, namespaceObjects = slices.Concat(namespaceObjects, objects), nil
	}
	p.objects, p.namespaceObjects = objects, namespaceObjects
}

// placesOf says where a resource is listed: once in the whole cluster, named by
// the empty string, where every namespace is wanted, else in each namespace.
func (p *plan) placesOf(r resource) []string {
	if !r.namespaced || p.wide && len(p.namespaces) > 0 {
		return []string{""}
	}
	return slices.Sorted(maps.Keys(p.namespaces))
}

// relatable is a resource whose objects are taken where others need them: one
// that is not excluded, and, where it is namespaced, chosen.
func (p *plan) relatable(name string) (resource, bool) {
	r, known := p.known[name]
	if !known || p.excluded(r) {
		return resource{}, false
	}
	_, chosen := p.chosen[name]
	return r, chosen || !r.namespaced
}

// order reads orderedResources. What cannot be followed is a warning.
func (p *plan) order(asked map[string]string, all []resource) {
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		r, found := lookUp(name, all)
		if _, chosen := p.chosen[r.String()]; !found || !chosen {
			p.warnings = append(p.warnings, line{text: fmt.Sprintf("orderedResources: the backup takes no %q", name)})
			continue
		}
		list := orderedList{resource: r.String()}
		for _, key := range berth.OrderedNames(asked[name]) {
			namespace, _ := splitKey(key)
			if r.namespaced != (namespace != "") || r.namespaced && !p.namespaces[namespace] {
				p.warnings = append(p.warnings, line{text: fmt.Sprintf("orderedResources: %s %q is in no namespace of the backup", r, key)})
				continue
			}
			list.keys = append(list.keys, key)
		}
		if len(list.keys) > 0 {
			p.ordered = append(p.ordered, list)
		}
	}
}

// queries are the selectors as requests spell them: a list each, since the API
// server has no OR.
func (p *plan) queries() []string {
	if len(p.selectors) == 0 {
		return []string{""}
	}
	var queries []string
	for _, s := range p.selectors {
		queries = append(queries, s.String())
	}
	return queries
}

func selectorsOf(spec berth.Spec) ([]labels.Selector, error) {
	given := spec.OrLabelSelectors
	if spec.LabelSelector != nil {
		given = []*metav1.LabelSelector{spec.LabelSelector}
	}
	var selectors []labels.Selector
	for _, one := range given {
		s, err := metav1.LabelSelectorAsSelector(one)
		if err != nil {
			return nil, fmt.Errorf("label selector: %w", err)
		}
		// One that matches everything leaves nothing for the others to limit.
		if s.Empty() {
			return nil, nil
		}
		selectors = append(selectors, s)
	}
	return selectors, nil
}

// wants says whether an object belongs to the backup; touched says whether an
// object of the namespace of that name was taken.
func (p *plan) wants(r resource, h head, touched func(namespace string) bool) bool {
	switch {
	case h.excluded || h.deleting:
		return false
	case r.isNamespaces():
		return p.namespaces[h.name] && (p.selects(h) || touched(h.name))
	case r.namespaced:
		return p.namespaces[h.namespace]
	}
	return true
}

// selects says whether the selectors choose an object.
func (p *plan) selects(h head) bool { return len(p.selectors) == 0 || p.matches(h) }

func (p *plan) matches(h head) bool {
	return slices.ContainsFunc(p.selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(h.labels())) })
}
