package backup

import (
	"maps"
	"slices"
	"strings"
)

// podRecord is what is kept of a pod to see what belongs together.
type podRecord struct {
	key           string
	claims        []string // keys
	priorityClass string
	running       bool
	// hooked pods have a hook of their own or of the spec.
	hooked bool
	// selected ones are chosen by the spec, others at most by a relation.
	selected bool
}

// claimRecord is what is kept of a PersistentVolumeClaim.
type claimRecord struct {
	key, volume, group string
	selected           bool
}

// orderedList is one entry of orderedResources.
type orderedList struct {
	resource string
	keys     []string
}

// group is what one ItemBlock holds, in the order in which it is backed up.
type group struct {
	// ordered are the objects that orderedResources names.
	ordered      []orderedList
	pods, claims []string
}

// formation is what is decided before the first object is read whole.
type formation struct {
	// groups are backed up as blocks: those with a hook or with an order. All
	// others may be taken one by one, since nothing happens between their objects.
	groups []group
	// pods and claims are those that no selector chose and that belong to the
	// backup since others need them; without those of groups.
	pods, claims []string
}

// form follows the relations of pods and claims as Velero's ItemBlocks do: a pod
// brings the claims that it mounts, a claim the running pods that mount it and
// the claims of its volume group. What is joined so, and has a hook or an order,
// is one group.
func form(pods []podRecord, claims []claimRecord, ordered []orderedList) formation {
	f := newFormer(pods, claims)
	f.include()
	f.join(ordered)
	return f.result(ordered)
}

// former works on nodes, which are named by resource and key.
type former struct {
	pods     map[string]podRecord
	claims   map[string]claimRecord
	mounters map[string][]string // of a claim, the pods
	members  map[string][]string // of a volume group in a namespace, the claims
	included map[string]bool     // nodes
	parents  map[string]string   // nodes joined, as a forest
}

func newFormer(pods []podRecord, claims []claimRecord) *former {
	f := &former{
		pods: map[string]podRecord{}, claims: map[string]claimRecord{}, mounters: map[string][]string{},
		members: map[string][]string{}, included: map[string]bool{}, parents: map[string]string{},
	}
	for _, c := range claims {
		f.claims[c.key] = c
		if c.group != "" {
			f.members[groupKey(c)] = append(f.members[groupKey(c)], c.key)
		}
	}
	for _, p := range pods {
		f.pods[p.key] = p
		for _, claim := range p.claims {
			f.mounters[claim] = append(f.mounters[claim], p.key)
		}
	}
	return f
}

func groupKey(c claimRecord) string {
	namespace, _, _ := strings.Cut(c.key, "/")
	return namespace + "/" + c.group
}

func node(resource, key string) string { return resource + " " + key }

// include marks what is selected and what that brings with it.
func (f *former) include() {
	var pods, claims []string
	addPod := func(key string) {
		if _, known := f.pods[key]; known && !f.included[node(resourcePods, key)] {
			f.included[node(resourcePods, key)] = true
			pods = append(pods, key)
		}
	}
	addClaim := func(key string) {
		if _, known := f.claims[key]; known && !f.included[node(resourceClaims, key)] {
			f.included[node(resourceClaims, key)] = true
			claims = append(claims, key)
		}
	}
	for key, p := range f.pods {
		if p.selected {
			addPod(key)
		}
	}
	for key, c := range f.claims {
		if c.selected {
			addClaim(key)
		}
	}
	for len(pods)+len(claims) > 0 {
		nextPods, nextClaims := pods, claims
		pods, claims = nil, nil
		for _, key := range nextPods {
			for _, claim := range f.pods[key].claims {
				addClaim(claim)
			}
		}
		for _, key := range nextClaims {
			for _, pod := range f.mounters[key] {
				if f.pods[pod].running {
					addPod(pod)
				}
			}
			if c := f.claims[key]; c.group != "" {
				for _, member := range f.members[groupKey(c)] {
					addClaim(member)
				}
			}
		}
	}
}

// root is the node that stands for all that n is joined with.
func (f *former) root(n string) string {
	for {
		parent, joined := f.parents[n]
		if !joined {
			return n
		}
		if grandparent, ok := f.parents[parent]; ok {
			f.parents[n] = grandparent
		}
		n = parent
	}
}

func (f *former) union(a, b string) {
	if a, b = f.root(a), f.root(b); a != b {
		f.parents[a] = b
	}
}

// join unites what belongs into one block.
func (f *former) join(ordered []orderedList) {
	for key, p := range f.pods {
		for _, claim := range p.claims {
			if f.included[node(resourcePods, key)] && f.included[node(resourceClaims, claim)] {
				f.union(node(resourcePods, key), node(resourceClaims, claim))
			}
		}
	}
	for _, members := range f.members {
		var first string
		for _, member := range members {
			n := node(resourceClaims, member)
			switch {
			case !f.included[n]:
			case first == "":
				first = n
			default:
				f.union(first, n)
			}
		}
	}
	for _, list := range ordered {
		for _, key := range list.keys {
			f.union(node(list.resource, list.keys[0]), node(list.resource, key))
		}
	}
}

// result gathers the groups in the order of their first names.
func (f *former) result(ordered []orderedList) formation {
	groups := map[string]*group{}
	for key, p := range f.pods {
		if p.hooked && f.included[node(resourcePods, key)] {
			groups[f.root(node(resourcePods, key))] = &group{}
		}
	}
	named := map[string]bool{}
	for _, list := range ordered {
		root := f.root(node(list.resource, list.keys[0]))
		if groups[root] == nil {
			groups[root] = &group{}
		}
		groups[root].ordered = append(groups[root].ordered, list)
		for _, key := range list.keys {
			named[node(list.resource, key)] = true
		}
	}
	var out formation
	for _, key := range slices.Sorted(maps.Keys(f.pods)) {
		n := node(resourcePods, key)
		if g := groups[f.root(n)]; g != nil && f.included[n] && !named[n] {
			g.pods = append(g.pods, key)
		} else if g == nil && f.included[n] && !f.pods[key].selected {
			out.pods = append(out.pods, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.claims)) {
		n := node(resourceClaims, key)
		if g := groups[f.root(n)]; g != nil && f.included[n] && !named[n] {
			g.claims = append(g.claims, key)
		} else if g == nil && f.included[n] && !f.claims[key].selected {
			out.claims = append(out.claims, key)
		}
	}
	for _, g := range groups {
		out.groups = append(out.groups, *g)
	}
	slices.SortFunc(out.groups, func(a, b group) int { return strings.Compare(a.first(), b.first()) })
	return out
}

// first is what a group is sorted by: those with an order come first.
func (g group) first() string {
	if len(g.ordered) > 0 {
		return "0 " + g.ordered[0].resource + " " + g.ordered[0].keys[0]
	}
	return "1 " + g.pods[0]
}
