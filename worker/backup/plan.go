package backup

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-backup/berth"
)

// plan is what a run reads, decided before the first list.
type plan struct {
	// stages follow one another; the listings of one run together.
	stages [][]*listing
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
func planOf(run berth.Run, cluster found) (plan, error) {
	scope, problems := berth.ScopeOf(run.Spec.IncludedNamespaces, run.Spec.ExcludedNamespaces)
	if len(problems) > 0 {
		return plan{}, &Failure{Reason: ReasonInvalidSpec, Message: problems[0].Pointer + ": " + problems[0].Detail}
	}
	selectors, err := selectorsOf(run.Spec)
	if err != nil {
		return plan{}, &Failure{Reason: ReasonInvalidSpec, Message: err.Error()}
	}
	p := plan{
		scope: scope, selectors: selectors, wide: scope.Wide(),
		namespaces: setOf(run.Contents.Names), leftOut: setOf(run.Contents.Excluded),
	}
	for _, failure := range cluster.failures {
		p.warnings = append(p.warnings, line{text: failure})
	}
	chosen := filter(run.Spec, scope.Kind, cluster.resources)
	for _, warning := range chosen.warnings {
		p.warnings = append(p.warnings, line{text: warning})
	}
	p.noteContents(run.Contents)
	p.schedule(chosen.resources, run.Contents.Names)
	if len(p.stages) == 0 && len(run.Contents.Missing) > 0 {
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

// schedule turns the chosen resources into listings: a cluster-wide one where
// every namespace is wanted, else one per namespace.
func (p *plan) schedule(chosen []resource, namespaces []string) {
	var objects, namespaceObjects []*listing
	selectors := p.queries()
	for _, r := range chosen {
		switch {
		case r.isNamespaces() && len(namespaces) > 0:
			// Selectors choose objects, and with them the namespaces that they
			// live in: all namespaces are read.
			namespaceObjects = append(namespaceObjects, newListing(r, "", []string{""}))
		case r.isNamespaces():
		case !r.namespaced || p.wide && len(namespaces) > 0:
			objects = append(objects, newListing(r, "", selectors))
		default:
			for _, namespace := range namespaces {
				objects = append(objects, newListing(r, namespace, selectors))
			}
		}
	}
	stages := [][]*listing{slices.Concat(namespaceObjects, objects)}
	if len(p.selectors) > 0 {
		// Which namespaces are taken depends on what was found in them.
		stages = [][]*listing{objects, namespaceObjects}
	}
	p.stages = slices.DeleteFunc(stages, func(s []*listing) bool { return len(s) == 0 })
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
		return p.namespaces[h.name] && (len(p.selectors) == 0 || p.matches(h) || touched(h.name))
	case r.namespaced:
		return p.namespaces[h.namespace]
	}
	return true
}

func (p *plan) matches(h head) bool {
	return slices.ContainsFunc(p.selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(h.labels())) })
}
