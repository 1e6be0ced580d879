package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/berth-backup/berth"
)

// shape is a kind of queue.
type shape struct {
	name string
	// limit is the cluster's, hold how many of it run while others are measured.
	limit, hold int
	// scope is what the i-th backup of a queue asks for.
	scope func(i, depth int) scope
	// waking is what a backup asks for that may start at once, whatever waits;
	// nil where no place is free.
	waking []string
	// measure takes the shape's measures at one depth.
	measure func(b *bench, ctx context.Context, s shape, depth int, r *record) error
}

// scope is which namespaces a backup asks for.
type scope struct{ includes, excludes []string }

// kept tells backups that go on running while others come and go.
const kept = "keep-"

// someNamespaces are few: as many backups run as are disjoint, and the limit is
// never in the way.
const someNamespaces = 50

// holes are the namespaces that an everything-but leaves to others.
var holes = []string{"hole-0", "hole-1", "hole-2", "hole-3", "hole-free"}

var shapes = []shape{
	{
		// No two share a namespace, and places are free.
		name: "disjoint", limit: 5, hold: 1,
		scope: func(i, _ int) scope { return own(i) }, measure: (*bench).single,
	},
	{
		// Each asks for one to three of fifty namespaces.
		name: "50-namespaces", limit: 64, hold: someNamespaces,
		scope:  func(i, _ int) scope { return scope{includes: fewOfFifty(i)} },
		waking: []string{"free"}, measure: (*bench).single,
	},
	{
		// All ask for one namespace, which a running backup holds.
		name: "hot", limit: 2, hold: 1,
		scope:  func(int, int) scope { return scope{includes: []string{"hot"}} },
		waking: []string{"free"}, measure: (*bench).single,
	},
	{
		// Disjoint, but one in the middle asks for everything.
		name: "everything-in-the-middle", limit: 5, hold: 1,
		scope: func(i, depth int) scope {
			if i == depth/2 {
				return scope{includes: []string{"*"}}
			}
			return own(i)
		},
		measure: (*bench).single,
	},
	{
		// The first runs and holds everything but a few namespaces, for which
		// every second of the others asks.
		name: "everything-but-in-front", limit: 6, hold: len(holes),
		scope: func(i, _ int) scope {
			switch {
			case i == 0:
				return scope{excludes: holes}
			case i%2 == 1:
				return scope{includes: holes[i/2%(len(holes)-1):][:1]}
			}
			return scope{includes: []string{fmt.Sprintf("ns-%d", i%1000)}}
		},
		waking: holes[len(holes)-1:], measure: (*bench).single,
	},
	{
		// Disjoint, and as many run as may.
		name: "limit-saturated", limit: 5, hold: 5,
		scope: func(i, _ int) scope { return own(i) }, measure: (*bench).single,
	},
	{
		// A disjoint queue in each of two clusters of one database.
		name: "two-clusters", limit: 5, hold: 5,
		scope: func(i, _ int) scope { return own(i) }, measure: (*bench).twoClusters,
	},
	{
		// Nothing waits, whatever the depth.
		name: emptyName, limit: 5, waking: []string{"free"}, measure: (*bench).empty,
	},
}

const emptyName = "empty"

// ShapeNames are those that Queue knows.
func ShapeNames() []string {
	names := make([]string, len(shapes))
	for i, s := range shapes {
		names[i] = s.name
	}
	return names
}

func own(i int) scope { return scope{includes: []string{fmt.Sprintf("ns-%d", i)}} }

// fewOfFifty are the same for the same i.
func fewOfFifty(i int) []string {
	random := rand.New(rand.NewPCG(1, uint64(i)))
	names := make([]string, 1+random.IntN(3))
	for n, at := range random.Perm(someNamespaces)[:len(names)] {
		names[n] = fmt.Sprintf("ns-%d", at)
	}
	return names
}

// request is the i-th of a queue.
func (s shape) request(i, depth int) berth.Request {
	asks := s.scope(i, depth)
	name := fmt.Sprintf("b-%d", i)
	if len(asks.excludes) > 0 {
		name = kept + name
	}
	return berth.Request{Cluster: clusterName, Name: name,
		Spec: berth.Spec{IncludedNamespaces: asks.includes, ExcludedNamespaces: asks.excludes}}
}

// namespaces are those that the cluster has.
func (s shape) namespaces(depth int) []berth.Namespace {
	names := slices.Clone(s.waking)
	for i := range depth {
		asks := s.scope(i, depth)
		names = append(append(names, asks.includes...), asks.excludes...)
	}
	slices.Sort(names)
	var all []berth.Namespace
	for _, name := range slices.Compact(names) {
		if name != "*" {
			all = append(all, berth.Namespace{Name: name, Exists: true})
		}
	}
	return all
}

func isKept(run berth.Run) bool { return strings.HasPrefix(run.Name, kept) }
