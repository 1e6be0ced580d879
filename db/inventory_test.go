package db_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db/dbtest"
)

func change(tb testing.TB, d *dbtest.Database, changed ...berth.Namespace) {
	tb.Helper()
	if err := d.ChangeNamespaces(context.Background(), berth.DefaultCluster, changed); err != nil {
		tb.Fatal(err)
	}
}

func present(name string) berth.Namespace { return berth.Namespace{Name: name, Exists: true} }
func labelled(name string) berth.Namespace {
	return berth.Namespace{Name: name, Exists: true, Excluded: true}
}
func gone(name string) berth.Namespace { return berth.Namespace{Name: name} }
func spec(includes, excludes []string) berth.Spec {
	return berth.Spec{IncludedNamespaces: includes, ExcludedNamespaces: excludes}
}

// At admission the contents are frozen: exactly the namespaces that exist then,
// beside those that are missing and those that the exclude label keeps out.
func TestContentsAreFrozen(t *testing.T) {
	t.Parallel()
	list := func(names ...string) []string { return names }
	tests := map[string]struct {
		includes, excludes []string
		want               berth.Contents
	}{
		"literals":                     {list("a", "ghost"), nil, berth.Contents{Names: list("a"), Missing: list("ghost")}},
		"a literal that is left out":   {list("a", "kept-out"), nil, berth.Contents{Names: list("a"), Excluded: list("kept-out")}},
		"a literal a pattern excludes": {list("a", "web-1"), list("web-*"), berth.Contents{Names: list("a")}},
		"a pattern":                    {list("web-*"), nil, berth.Contents{Names: list("web-1", "web-2"), Excluded: list("web-out")}},
		"a pattern with an exclude":    {list("web-*"), list("web-2", "web-o*"), berth.Contents{Names: list("web-1")}},
		"a pattern that matches none":  {list("none-*"), nil, berth.Contents{}},
		"nothing":                      {list(""), nil, berth.Contents{}},
		"everything":                   {nil, nil, berth.Contents{Names: list("a", "b", "web-1", "web-2"), Excluded: list("kept-out", "web-out")}},
		"*":                            {list("*"), nil, berth.Contents{Names: list("a", "b", "web-1", "web-2"), Excluded: list("kept-out", "web-out")}},
		"everything but literals":      {nil, list("a", "ghost", "web-out"), berth.Contents{Names: list("b", "web-1", "web-2"), Excluded: list("kept-out")}},
		"everything but a pattern":     {list("*"), list("web-*"), berth.Contents{Names: list("a", "b"), Excluded: list("kept-out")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newQueue(t, 1, "a", "b", "web-1", "web-2", "went")
			change(t, d, gone("went"), labelled("kept-out"), labelled("web-out"))
			b := enqueue(t, d, berth.Request{Name: "b", Spec: spec(test.includes, test.excludes)})
			if n := b.Namespaces; n.Frozen != nil || n.Missing != nil || n.Excluded != nil {
				t.Errorf("frozen while it waits: %+v", n)
			}
			run := dispatch(t, d, 1)[0]
			if diff := cmp.Diff(test.want, run.Contents, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
			// What comes, goes or is labelled while it runs changes nothing.
			change(t, d, present("web-3"), gone("web-1"), labelled("a"))
			q, err := d.Queue(t.Context(), berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			for where, n := range map[string]berth.Namespaces{"read": read(t, d, run).Namespaces, "in the queue": q.Running[0].Namespaces} {
				got := berth.Contents{Names: n.Frozen, Missing: n.Missing, Excluded: n.Excluded}
				if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("contents while it runs, %s (-want +got):\n%s", where, diff)
				}
				if n.Frozen == nil || n.Missing == nil || n.Excluded == nil {
					t.Errorf("%s: null though it runs: %+v", where, n)
				}
			}
		})
	}
}

// What waits follows the inventory: each change of it amends the claims of the
// queued backups that it concerns.
func TestQueuedClaimsFollowTheInventory(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "web-1", "busy")
	enqueue(t, d, request("busy", "busy"))
	dispatch(t, d, 1)
	pattern := enqueue(t, d, request("pattern", "web-*", "lit"))
	but := enqueue(t, d, berth.Request{Name: "but", Spec: spec(nil, []string{"web-*", "never"})})
	butLiteral := enqueue(t, d, berth.Request{Name: "but-literal", Spec: spec(nil, []string{"web-1"})})
	type claims struct{ Pattern, But, ButLiteral []string }
	check := func(what string, want claims) {
		t.Helper()
		now := func(b berth.Backup) berth.Namespaces { return read(t, d, berth.Run{ID: b.ID}).Namespaces }
		got := claims{now(pattern).Names, now(but).Except, now(butLiteral).Except}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: claims and holes (-want +got):\n%s", what, diff)
		}
	}
	list := func(names ...string) []string { return names }
	check("at first", claims{list("lit", "web-1"), list("never", "web-1"), list("web-1")})
	change(t, d, present("web-2"))
	check("a namespace came", claims{list("lit", "web-1", "web-2"), list("never", "web-1", "web-2"), list("web-1")})
	change(t, d, gone("web-2"))
	check("it went", claims{list("lit", "web-1"), list("never", "web-1"), list("web-1")})
	change(t, d, present("web-2"))
	check("it is back", claims{list("lit", "web-1", "web-2"), list("never", "web-1", "web-2"), list("web-1")})
	change(t, d, labelled("lit"), labelled("other"))
	check("two were labelled", claims{list("web-1", "web-2"), list("lit", "never", "other", "web-1", "web-2"), list("lit", "other", "web-1")})
	change(t, d, present("lit"), gone("other"))
	check("the labels are off", claims{list("lit", "web-1", "web-2"), list("never", "web-1", "web-2"), list("web-1")})
	change(t, d, labelled("web-1"))
	change(t, d, gone("web-1"))
	check("one that was labelled went", claims{list("lit", "web-2"), list("never", "web-2"), list("web-1")})
	change(t, d, gone("web-2"), present("web-2"), gone("web-3"), present("web-3"))
	check("the last word counts", claims{list("lit", "web-2", "web-3"), list("never", "web-2", "web-3"), list("web-1")})
	if err := d.SyncNamespaces(context.Background(), berth.DefaultCluster, []berth.Namespace{present("web-9"), present("web-9")}); err != nil {
		t.Fatal(err)
	}
	check("the complete list names only one", claims{list("lit", "web-9"), list("never", "web-9"), list("web-1")})
	if err := d.SyncNamespaces(context.Background(), berth.DefaultCluster, []berth.Namespace{present("web-1"), labelled("lit"), gone("web-9"), gone("web-2")}); err != nil {
		t.Fatal(err)
	}
	check("the complete list names what was there once", claims{list("web-1"), list("lit", "never", "web-1"), list("lit", "web-1")})
}

// Two patterns that match no namespace are in nobody's way, though one to come may
// match both: they wait for each other from the moment that it appears.
func TestTwoPatternsMeetInANamespaceToCome(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "busy")
	busy := enqueue(t, d, request("busy", "busy"))
	run := dispatch(t, d, 1)[0]
	enqueue(t, d, request("team", "team-*"))
	enqueue(t, d, request("prod", "*-prod"))
	enqueue(t, d, request("apart", "*-test"))
	dispatch(t, d, 0)
	checkWaits(t, d, "no namespace matches", map[string]string{"team": "NoFreeSlot", "prod": "NoFreeSlot", "apart": "NoFreeSlot"})
	change(t, d, present("team-prod"))
	dispatch(t, d, 0)
	checkWaits(t, d, "one appeared", map[string]string{"team": "NoFreeSlot", "prod": "EarlierQueuedOverlap team team-prod", "apart": "NoFreeSlot"})
	change(t, d, gone("team-prod"))
	dispatch(t, d, 0)
	checkWaits(t, d, "it went", map[string]string{"team": "NoFreeSlot", "prod": "NoFreeSlot", "apart": "NoFreeSlot"})
	finish(t, d, run)
	if _, err := d.ChangeSettings(t.Context(), berth.DefaultCluster, berth.SettingsChange{ConcurrentBackups: new(3)}); err != nil {
		t.Fatal(err)
	}
	// What runs holds what it was admitted with: what appears then is in no other's way.
	if runs := dispatch(t, d, 1); len(runs) != 1 || runs[0].Name != "team" || len(runs[0].Contents.Names) > 0 {
		t.Fatalf("admitted %+v after %s", runs, busy.Name)
	}
	change(t, d, present("team-prod"))
	if runs := dispatch(t, d, 2); len(runs) != 2 || !slices.Equal(runs[0].Contents.Names, []string{"team-prod"}) {
		t.Errorf("admitted %+v", runs)
	}
	checkAudit(t, connect(t, d.URL), "in the end")
}

// A list that changes nothing writes nothing.
func TestSameInventoryWritesNothing(t *testing.T) {
	t.Parallel()
	d := newQueue(t, 1, "a", "b")
	before, err := d.Queue(context.Background(), berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	change(t, d, present("a"), gone("never-there"))
	if err := d.SyncNamespaces(context.Background(), berth.DefaultCluster, []berth.Namespace{present("b"), present("a")}); err != nil {
		t.Fatal(err)
	}
	after, err := d.Queue(context.Background(), berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if before.Version != after.Version {
		t.Errorf("the queue went from version %d to %d", before.Version, after.Version)
	}
}

// The namespaces of a great cluster come and go some at a time. Until the first
// list is written whole, also where it is cut short, no pattern is resolved.
func TestManyNamespacesDoNotHoldTheGate(t *testing.T) {
	t.Parallel()
	const many, pieces = 3000, 6
	d := newUnsynced(t)
	b := enqueue(t, d, request("pattern", "web-*"))
	var all []berth.Namespace
	for i := range many {
		all = append(all, present(fmt.Sprintf("web-%04d", i)))
	}
	checkWaitsForTheList := func() {
		t.Helper()
		if w := waits(t, d)["pattern"]; w != "ScopeUnresolvable" {
			t.Errorf("%s, though the list is not whole", w)
		}
		if runs := dispatch(t, d, 1); len(runs) != 0 {
			t.Error("admitted before the list is whole")
		}
	}
	checkWaitsForTheList()
	ctx, cancel := context.WithCancel(t.Context())
	d.ObserveGates(func(time.Duration) { cancel() })
	if err := d.SyncNamespaces(ctx, berth.DefaultCluster, all); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var takes atomic.Int32
	d.ObserveGates(func(time.Duration) { takes.Add(1) })
	checkWaitsForTheList()
	var written int
	if err := connect(t, d.Direct).QueryRow(t.Context(), "SELECT count(*) FROM namespaces WHERE present").Scan(&written); err != nil {
		t.Fatal(err)
	}
	if written == 0 || written >= many {
		t.Errorf("%d namespaces are written of a list that was cut short", written)
	}

	sync := func(all []berth.Namespace) {
		t.Helper()
		takes.Store(0)
		if err := d.SyncNamespaces(t.Context(), berth.DefaultCluster, all); err != nil {
			t.Fatal(err)
		}
		if n := takes.Load(); n < pieces {
			t.Errorf("%d changes took the gate %d times", many, n)
		}
	}
	sync(all)
	if now, err := d.Backup(t.Context(), b.ID); err != nil || len(now.Namespaces.Names) != many {
		t.Errorf("the pattern claims %d namespaces of %d: %v", len(now.Namespaces.Names), many, err)
	}
	sync([]berth.Namespace{present("other")})
	if now, err := d.Backup(t.Context(), b.ID); err != nil || len(now.Namespaces.Names) != 0 {
		t.Errorf("the pattern claims %d namespaces that are gone: %v", len(now.Namespaces.Names), err)
	}
}

// Patterns that take in thousands of namespaces are resolved a few in a
// transaction, and what changes in one namespace changes one row of each; whom they
// wait for is told by the same rule.
func TestPatternsOnManyNamespaces(t *testing.T) {
	t.Parallel()
	const many, patterns = 2600, 6
	d := newUnsynced(t)
	conn := connect(t, d.Direct)
	name := func(i int) string { return fmt.Sprintf("n%04d", i) }
	requests := []berth.Request{request("ahead", name(7), "elsewhere"), request("apart", "other")}
	for i := range patterns {
		requests = append(requests, berth.Request{Name: fmt.Sprintf("pattern-%d", i), Spec: spec([]string{"n*"}, []string{name(i)})})
	}
	requests = append(requests, request("behind", name(0)), request("last", "other"), berth.Request{Name: "everything"})
	for _, r := range requests {
		enqueue(t, d, r)
	}
	var all []berth.Namespace
	for i := range many {
		all = append(all, present(name(i)))
	}
	var takes atomic.Int32
	d.ObserveGates(func(time.Duration) { takes.Add(1) })
	sync := func(atLeast int, change func() error) {
		t.Helper()
		takes.Store(0)
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if n := takes.Load(); int(n) < atLeast {
			t.Errorf("%d namespaces of %d patterns took the gate %d times, want %d at least", len(all), patterns, n, atLeast)
		}
	}
	held := map[int64]berth.Claim{}
	var o oracle
	check := func(what string) {
		t.Helper()
		checkAudit(t, conn, what)
		q, err := d.Queue(t.Context(), berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		o, err = readOracle(t.Context(), conn, berth.DefaultCluster, 1, held)
		if err != nil {
			t.Fatal(err)
		}
		for _, difference := range o.differences(q) {
			t.Errorf("%s: %s", what, difference)
		}
	}
	// Two of 2,599 namespaces each are 5,198: as many as one transaction amends. The
	// first two go with the last of the list.
	sync((many+511)/512+patterns/2-1, func() error { return d.SyncNamespaces(t.Context(), berth.DefaultCluster, all) })
	check("the first list")
	change := func(what string, changed ...berth.Namespace) {
		t.Helper()
		sync(1, func() error { return d.ChangeNamespaces(t.Context(), berth.DefaultCluster, changed) })
		check(what)
	}
	change("one comes", present("n-new"))
	change("the label comes to one", labelled(name(9)))
	change("the label leaves one, and another comes", present(name(9)), present("n-newer"))
	change("some go, one of them named", gone(name(7)), gone(name(0)), gone(name(1000)))
	sync(2, func() error { return d.SyncNamespaces(t.Context(), berth.DefaultCluster, all[:many-600]) })
	check("600 go")
	for range len(requests) {
		runs := dispatch(t, d, 2)
		for _, run := range runs {
			scope, problems := berth.ScopeOf(run.Spec.IncludedNamespaces, run.Spec.ExcludedNamespaces)
			if problems != nil {
				t.Fatal(problems)
			}
			held[run.Seq], _ = scope.Claim(o.Namespaces, o.Synced)
		}
		check("after a dequeue")
		for _, run := range runs {
			finish(t, d, run)
		}
		check("after a finish")
	}
	var left int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM backups WHERE phase = 'Queued'").Scan(&left); err != nil || left > 0 {
		t.Errorf("%d wait for ever, %v", left, err)
	}
}

// newUnsynced is a database whose cluster never told its namespaces.
func newUnsynced(t *testing.T) *dbtest.Database {
	d := dbtest.New(t)
	ctx := t.Context()
	if err := d.SetStorageLocation(ctx, berth.StorageLocation{Cluster: berth.DefaultCluster, Name: berth.DefaultStorageLocation, URL: "file:///data"}); err != nil {
		t.Fatal(err)
	}
	if err := d.SetConcurrentBackups(ctx, berth.DefaultCluster, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Renew(ctx, berth.Heartbeat{Cluster: berth.DefaultCluster, Worker: "w", LeaseTTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	return d
}

// Before a cluster's inventory was ever synced, literals, everything and
// everything but literals are admissible; whatever has a pattern waits as
// ScopeUnresolvable, claiming everything.
func TestUnsyncedCluster(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, s := range map[string]berth.Spec{
		"literals":                {IncludedNamespaces: []string{"a", "b"}},
		"literals but one":        {IncludedNamespaces: []string{"a", "b"}, ExcludedNamespaces: []string{"b*"}},
		"everything":              {},
		"everything but literals": {ExcludedNamespaces: []string{"a"}},
		"nothing":                 {IncludedNamespaces: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newUnsynced(t)
			enqueue(t, d, berth.Request{Name: "b", Spec: s})
			if diff := cmp.Diff([]string{"b"}, names(dispatch(t, d, 5))); diff != "" {
				t.Errorf("admitted (-want +got):\n%s", diff)
			}
		})
	}
	for name, s := range map[string]berth.Spec{
		"a pattern":                {IncludedNamespaces: []string{"web-*", "b"}},
		"everything but a pattern": {ExcludedNamespaces: []string{"web-*"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newUnsynced(t)
			enqueue(t, d, request("first", "z"))
			enqueue(t, d, berth.Request{Name: "pattern", Spec: s})
			enqueue(t, d, request("later", "z2"))
			enqueue(t, d, request("none", ""))
			if diff := cmp.Diff([]string{"first", "none"}, names(dispatch(t, d, 5))); diff != "" {
				t.Errorf("admitted (-want +got):\n%s", diff)
			}
			unresolvable := map[string]string{"pattern": "ScopeUnresolvable", "later": "EarlierQueuedOverlap pattern z2"}
			if diff := cmp.Diff(unresolvable, waits(t, d)); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
			// A namespace that is heard of is not yet all of them.
			change(t, d, present("web-1"))
			dispatch(t, d, 5)
			if diff := cmp.Diff(unresolvable, waits(t, d)); diff != "" {
				t.Errorf("waits after a change (-want +got):\n%s", diff)
			}
			if err := d.SyncNamespaces(ctx, berth.DefaultCluster, []berth.Namespace{present("b"), present("web-1")}); err != nil {
				t.Fatal(err)
			}
			waiting := waits(t, d)
			if waiting["pattern"] == "ScopeUnresolvable" {
				t.Errorf("synced: %v", waiting)
			}
			// Everything but a pattern overlaps what runs; a pattern does not.
			want := []string{"pattern", "later"}
			if len(s.IncludedNamespaces) == 0 {
				want = nil
			}
			if diff := cmp.Diff(want, names(dispatch(t, d, 5))); diff != "" {
				t.Errorf("admitted when synced (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a cluster without namespaces is synced too", func(t *testing.T) {
		t.Parallel()
		d := newUnsynced(t)
		enqueue(t, d, request("pattern", "web-*"))
		dispatch(t, d, 5)
		if err := d.SyncNamespaces(ctx, berth.DefaultCluster, nil); err != nil {
			t.Fatal(err)
		}
		runs := dispatch(t, d, 5)
		if len(runs) != 1 || len(runs[0].Contents.Names) > 0 {
			t.Errorf("admitted %+v, want the pattern with nothing in it", runs)
		}
	})
}

// Limits, namespaces, workers and claims belong to a cluster.
func TestClustersAreSeparate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "a")
	// One of them shares the gate of the default cluster.
	clusters := []string{berth.DefaultCluster}
	for i := range 16 {
		name := "c" + string(rune('a'+i))
		if err := d.AddCluster(ctx, name); err != nil {
			t.Fatal(err)
		}
		if err := d.AddCluster(ctx, name); err != nil {
			t.Fatalf("add it again: %v", err)
		}
		clusters = append(clusters, name)
	}
	if found, err := d.Clusters(ctx); err != nil || cmp.Diff(clusters, found) != "" {
		t.Fatalf("clusters %v, %v", found, err)
	}
	for _, name := range clusters[1:] {
		if err := d.SetStorageLocation(ctx, berth.StorageLocation{Cluster: name, Name: berth.DefaultStorageLocation, URL: "file:///data", Prefix: name}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range clusters {
		for _, r := range []berth.Request{request("all"), request("a", "a"), request("pattern", "a*")} {
			r.Cluster = name
			enqueue(t, d, r)
		}
	}
	var everyone []func() error
	var runs = make([][]berth.Run, len(clusters))
	for i, name := range clusters {
		everyone = append(everyone, func() error {
			done, err := d.Dispatch(ctx, berth.DispatchRequest{Cluster: name, Worker: "w", Want: 3, LeaseTTL: time.Minute})
			runs[i] = done.Runs
			return err
		})
	}
	if err := race(everyone...); err != nil {
		t.Fatal(err)
	}
	for i, name := range clusters {
		if diff := cmp.Diff([]string{"all"}, names(runs[i])); diff != "" {
			t.Errorf("cluster %s admitted (-want +got):\n%s", name, diff)
		}
		q, err := d.Queue(ctx, berth.QueueOptions{Cluster: name, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		want := berth.WaitNoWorker
		if i == 0 {
			want = berth.WaitRunningOverlap
		}
		if len(q.Running) != 1 || len(q.Waiting) != 2 || q.Settings.ConcurrentBackups != 1 || q.Waiting[0].Queue.BlockedBy[0].Reason != want {
			t.Errorf("the queue of %s is %+v", name, q)
		}
	}
	if hits := d.ConstraintHits(); len(hits) > 0 {
		t.Errorf("constraints were hit: %v", hits)
	}
}

// A process that dies while it works a change of the namespaces into the queue
// leaves it to whoever dequeues next: nobody is admitted with a claim of before.
func TestAmendmentOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newQueue(t, 1, "web-1")
	var many []berth.Request
	for i := range 300 {
		r := request(nth("b", i), "web-*")
		r.Spec.ExcludedNamespaces = []string{nth("not", i)} // no two scopes alike
		many = append(many, r)
	}
	enqueueMany(t, d, many...)
	dispatch(t, d, 0)
	// What the first transaction of a change writes, and then nothing more.
	exec(t, d, "INSERT INTO namespaces (cluster_id, name, present) VALUES (1, 'web-9', true)")
	exec(t, d, "UPDATE clusters SET inventory_version = inventory_version + 1")
	exec(t, d, "INSERT INTO amendments (cluster_id, order_key, seq, names, relabelled) VALUES (1, '-infinity', 0, '{web-9}', '{}')")
	enqueue(t, d, request("late", "web-9"))
	runs := dispatch(t, d, 1)
	if diff := cmp.Diff([]string{"b-0"}, names(runs)); diff != "" {
		t.Fatalf("admitted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"web-1", "web-9"}, runs[0].Contents.Names); diff != "" {
		t.Errorf("it holds (-want +got):\n%s", diff)
	}
	for range 10 {
		dispatch(t, d, 0)
	}
	q, err := d.Queue(ctx, berth.QueueOptions{Cluster: berth.DefaultCluster, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range q.Waiting {
		if b.Name != "late" && !slices.Equal(b.Namespaces.Names, []string{"web-1", "web-9"}) {
			t.Fatalf("%s claims %v", b.Name, b.Namespaces.Names)
		}
	}
	if wait := waits(t, d)["late"]; wait != "EarlierQueuedOverlap b-299 web-9" {
		t.Errorf("late waits for %q", wait)
	}
}
