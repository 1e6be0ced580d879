package berth

import (
	"slices"
	"strings"
)

// MaxShared is how many of the namespaces that two backups both need are named.
const MaxShared = 100

// Claim is the set of namespaces that a backup waits for or holds. The zero
// value claims nothing.
type Claim struct {
	// All claims every namespace, those to come included, but Names; else
	// exactly Names are claimed, whether they exist or not.
	All bool
	// Names are sorted, each once.
	Names []string
}

// Claim is what the scope claims where these namespaces are known. synced says
// whether the cluster's inventory was ever complete; a scope that needs it
// before that is not resolvable: it claims everything and is not admissible.
func (s Scope) Claim(known []Namespace, synced bool) (c Claim, resolvable bool) {
	resolved := s.Resolve(known, synced)
	if resolved.Unresolvable {
		return Claim{All: true}, false
	}
	return Claim{All: s.Wide(), Names: resolved.Names}, true
}

// Contains says whether the namespace called name is claimed.
func (c Claim) Contains(name string) bool {
	_, named := slices.BinarySearch(c.Names, name)
	return named != c.All
}

// Overlaps says whether two claims share a namespace, one that may yet come
// included: two that claim all but some always do. Whoever claims nothing
// overlaps nobody.
func (c Claim) Overlaps(d Claim) bool {
	switch {
	case c.All && d.All:
		return true
	case c.All:
		return slices.ContainsFunc(d.Names, c.Contains)
	case d.All:
		return slices.ContainsFunc(c.Names, d.Contains)
	}
	return shareAName(c.Names, d.Names)
}

// shareAName walks two sorted lists side by side.
func shareAName(a, b []string) bool {
	for len(a) > 0 && len(b) > 0 {
		switch order := strings.Compare(a[0], b[0]); {
		case order == 0:
			return true
		case order < 0:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}

// Shared names the namespaces that both claim, sorted, at most MaxShared; not to
// be changed. existing are the cluster's namespaces, sorted: two that claim all but
// some share what is to come too, and of all that the ones that exist are named.
func (c Claim) Shared(d Claim, existing []string) []string {
	candidates := existing
	switch {
	case !c.All:
		candidates = c.Names
	case !d.All:
		candidates = d.Names
	}
	if c.takesAll(candidates) && d.takesAll(candidates) {
		return candidates[:min(len(candidates), MaxShared)]
	}
	var shared []string
	for _, name := range candidates {
		if len(shared) == MaxShared {
			break
		}
		if c.Contains(name) && d.Contains(name) {
			shared = append(shared, name)
		}
	}
	return shared
}

// takesAll says at a glance that every one of the names is claimed.
func (c Claim) takesAll(names []string) bool {
	if c.All {
		return len(c.Names) == 0
	}
	return len(c.Names) > 0 && len(names) == len(c.Names) && &names[0] == &c.Names[0]
}

// inventory tells many scopes' claims on the same namespaces: what Scope.Claim
// tells, without looking at each namespace for each scope.
type inventory struct {
	known  []Namespace
	synced bool
	byName map[string]Namespace
	// labelled are those that the exclude label keeps out.
	labelled []Namespace
	// told are the claims of scopes with patterns, by their text.
	told map[string]Claim
}

func newInventory(known []Namespace, synced bool) *inventory {
	inv := &inventory{known: known, synced: synced, byName: make(map[string]Namespace, len(known)), told: map[string]Claim{}}
	for _, ns := range known {
		inv.byName[ns.Name] = ns
		if ns.Exists && ns.Excluded {
			inv.labelled = append(inv.labelled, ns)
		}
	}
	return inv
}

func (inv *inventory) claim(s Scope) (c Claim, resolvable bool) {
	if !s.HasPattern() {
		return s.Claim(inv.concerning(s), inv.synced)
	}
	text := s.text()
	if c, told := inv.told[text]; told {
		return c, true
	}
	c, resolvable = s.Claim(inv.known, inv.synced)
	if resolvable {
		inv.told[text] = c
	}
	return c, resolvable
}

// concerning are the namespaces that can make a difference to a scope without
// patterns: those that it names, and, for everything-but, those that the
// exclude label makes holes of.
func (inv *inventory) concerning(s Scope) []Namespace {
	var some []Namespace
	if s.Kind == ScopeEverythingBut {
		some = append(some, inv.labelled...)
	}
	for _, name := range s.Literals() {
		if ns, known := inv.byName[name]; known {
			some = append(some, ns)
		}
	}
	return some
}

// existing are the names of the namespaces that the cluster has, sorted.
func (inv *inventory) existing() []string {
	names := make([]string, 0, len(inv.known))
	for _, ns := range inv.known {
		if ns.Exists {
			names = append(names, ns.Name)
		}
	}
	slices.Sort(names)
	return names
}
