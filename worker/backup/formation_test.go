package backup

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func pod(key string, hooked bool, claims ...string) podRecord {
	namespace, _ := splitKey(key)
	p := podRecord{key: key, hooked: hooked, running: true, selected: true}
	for _, claim := range claims {
		p.claims = append(p.claims, namespace+"/"+claim)
	}
	return p
}

func TestForm(t *testing.T) {
	t.Parallel()
	unselected := func(p podRecord) podRecord { p.selected = false; return p }
	ended := func(p podRecord) podRecord { p.running = false; return p }
	claim := func(key, group string, selected bool) claimRecord {
		return claimRecord{key: key, group: group, selected: selected}
	}
	for name, test := range map[string]struct {
		pods    []podRecord
		claims  []claimRecord
		ordered []orderedList
		want    formation
	}{
		"nothing":    {},
		"no hook":    {[]podRecord{pod("a/p", false, "c")}, []claimRecord{claim("a/c", "", true)}, nil, formation{}},
		"a hook":     {[]podRecord{pod("a/p", true, "c")}, []claimRecord{claim("a/c", "", true)}, nil, formation{groups: []group{{pods: []string{"a/p"}, claims: []string{"a/c"}}}}},
		"two groups": {[]podRecord{pod("a/q", true), pod("a/p", true)}, nil, nil, formation{groups: []group{{pods: []string{"a/p"}}, {pods: []string{"a/q"}}}}},
		"a shared claim": {[]podRecord{pod("a/p", false, "c"), pod("a/q", true, "c"), pod("a/r", false, "d")},
			[]claimRecord{claim("a/c", "", true), claim("a/d", "", true)}, nil,
			formation{groups: []group{{pods: []string{"a/p", "a/q"}, claims: []string{"a/c"}}}}},
		"a volume group": {[]podRecord{pod("a/p", true, "c"), pod("a/q", false, "d"), pod("b/r", false, "c")},
			[]claimRecord{claim("a/c", "g", true), claim("a/d", "g", true), claim("b/c", "g", true)}, nil,
			formation{groups: []group{{pods: []string{"a/p", "a/q"}, claims: []string{"a/c", "a/d"}}}}},
		"a selected pod brings its claim and who mounts it": {
			[]podRecord{pod("a/p", false, "c"), unselected(pod("a/q", false, "c", "d")), unselected(ended(pod("a/r", false, "c"))), unselected(pod("a/s", false, "e"))},
			[]claimRecord{claim("a/c", "", false), claim("a/d", "", false), claim("a/e", "", false)}, nil,
			formation{pods: []string{"a/q"}, claims: []string{"a/c", "a/d"}}},
		"a selected claim brings a pod with a hook": {
			[]podRecord{unselected(pod("a/p", true, "c"))}, []claimRecord{claim("a/c", "", true)}, nil,
			formation{groups: []group{{pods: []string{"a/p"}, claims: []string{"a/c"}}}}},
		"a hook that nothing selects": {[]podRecord{unselected(pod("a/p", true, "c"))}, []claimRecord{claim("a/c", "", false)}, nil, formation{}},
		"a claim that does not exist": {[]podRecord{pod("a/p", true, "none")}, nil, nil, formation{groups: []group{{pods: []string{"a/p"}}}}},
		"an order": {nil, nil, []orderedList{{"secrets", []string{"a/y", "a/x"}}},
			formation{groups: []group{{ordered: []orderedList{{"secrets", []string{"a/y", "a/x"}}}}}}},
		"an order and a hook": {[]podRecord{pod("a/p", true, "c"), pod("a/q", false, "d")}, []claimRecord{claim("a/c", "", true), claim("a/d", "", true)},
			[]orderedList{{"pods", []string{"a/q", "a/p"}}},
			formation{groups: []group{{ordered: []orderedList{{"pods", []string{"a/q", "a/p"}}}, claims: []string{"a/c", "a/d"}}}}},
	} {
		got := form(test.pods, test.claims, test.ordered)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(formation{}, group{}, orderedList{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Whatever is there: no object is in two groups; a group has a hook or an order;
// what a pod of a group mounts and what belongs to the backup is in its group; and
// the order of the lists changes nothing.
func TestFormProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := func(label string, n int) []string {
			return rapid.SliceOfNDistinct(rapid.Map(rapid.IntRange(0, 9), func(i int) string { return fmt.Sprintf("n%d/%s%d", i%2, label, i) }), 0, n, rapid.ID).Draw(t, label)
		}
		var claims []claimRecord
		for _, key := range names("c", 8) {
			claims = append(claims, claimRecord{key: key, group: rapid.SampledFrom([]string{"", "", "g", "h"}).Draw(t, "group"), selected: rapid.Bool().Draw(t, "selected")})
		}
		var pods []podRecord
		for _, key := range names("p", 8) {
			p := podRecord{key: key, running: rapid.Bool().Draw(t, "running"), hooked: rapid.Bool().Draw(t, "hooked"), selected: rapid.Bool().Draw(t, "selected")}
			namespace, _ := splitKey(key)
			for _, c := range claims {
				if strings.HasPrefix(c.key, namespace+"/") && rapid.IntRange(0, 3).Draw(t, "mounts") == 0 {
					p.claims = append(p.claims, c.key)
				}
			}
			pods = append(pods, p)
		}
		f := form(pods, claims, nil)
		again := form(rapid.Permutation(pods).Draw(t, "pods"), rapid.Permutation(claims).Draw(t, "claims"), nil)
		if diff := cmp.Diff(f, again, cmp.AllowUnexported(formation{}, group{}, orderedList{})); diff != "" {
			t.Fatalf("the order of the lists counts:\n%s", diff)
		}
		in := map[string]int{}
		note := func(resource string, keys []string, group int) {
			for _, key := range keys {
				if other, again := in[node(resource, key)]; again {
					t.Fatalf("%s %s is in %d and %d", resource, key, other, group)
				}
				in[node(resource, key)] = group
			}
		}
		for i, g := range f.groups {
			note(resourcePods, g.pods, i)
			note(resourceClaims, g.claims, i)
			if !slices.ContainsFunc(pods, func(p podRecord) bool { return p.hooked && slices.Contains(g.pods, p.key) }) {
				t.Fatalf("group %d has no hook: %+v", i, g)
			}
		}
		note(resourcePods, f.pods, -1)
		note(resourceClaims, f.claims, -1)
		taken := maps.Clone(in)
		for _, p := range pods {
			if p.selected {
				taken[node(resourcePods, p.key)] = 0
			}
			if _, grouped := in[node(resourcePods, p.key)]; p.hooked && p.selected && !grouped {
				t.Fatalf("%s has a hook and no group", p.key)
			}
		}
		for _, c := range claims {
			if c.selected {
				taken[node(resourceClaims, c.key)] = 0
			}
		}
		for _, p := range pods {
			for _, claim := range p.claims {
				podTaken, claimTaken := has(taken, node(resourcePods, p.key)), has(taken, node(resourceClaims, claim))
				if podTaken && !claimTaken {
					t.Fatalf("%s is taken without its claim %s", p.key, claim)
				}
				if claimTaken && p.running && !podTaken {
					t.Fatalf("claim %s is taken without the running pod %s", claim, p.key)
				}
				a, grouped := in[node(resourcePods, p.key)]
				b, claimGrouped := in[node(resourceClaims, claim)]
				if podTaken && claimTaken && (grouped && a >= 0) != (claimGrouped && b >= 0) || grouped && claimGrouped && a != b && podTaken && claimTaken {
					t.Fatalf("%s and its claim %s are apart: %d, %d", p.key, claim, a, b)
				}
			}
		}
	})
}

func has(m map[string]int, key string) bool { _, ok := m[key]; return ok }
