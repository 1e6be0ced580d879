package backup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/worker/backup"
)

// taken lists what came into the archive, as "configmaps/<ns>/<name>", with
// the test's namespaces shortened to their prefix.
func (f *fixture) taken(r berth.Run, shorten ...string) []string {
	f.Helper()
	f.take(backup.Job{Run: r})
	short := strings.NewReplacer(append(shorten, "resources/", "", "namespaces/cluster/", "ns/", "/namespaces/", "/", ".json", "")...)
	var names []string
	for _, path := range f.plainPaths() {
		names = append(names, short.Replace(path))
	}
	return names
}

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func TestLabelSelectorsChooseObjectsAndTheirNamespaces(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b, c := f.namespace("a"), f.namespace("b"), f.namespace("c")
	f.configMap(a, "red", labelled("color", "red"))
	f.configMap(a, "blue", labelled("color", "blue"))
	f.configMap(a, "both", labelled("color", "red", "shape", "round"))
	f.configMap(b, "round", labelled("shape", "round"))
	f.configMap(c, "plain", nil)
	short := []string{a, "a", b, "b", c, "c"}
	for name, test := range map[string]struct {
		change func(*berth.Spec)
		want   []string
	}{
		"no selector": {func(*berth.Spec) {}, []string{
			"configmaps/a/blue", "configmaps/a/both", "configmaps/a/red", "configmaps/b/round", "configmaps/c/plain", "ns/a", "ns/b", "ns/c"}},
		"one selector": {func(s *berth.Spec) { s.LabelSelector = selector("color", "red") }, []string{
			"configmaps/a/both", "configmaps/a/red", "ns/a"}},
		"one of two selectors": {func(s *berth.Spec) {
			s.OrLabelSelectors = []*metav1.LabelSelector{selector("color", "red"), selector("shape", "round")}
		}, []string{"configmaps/a/both", "configmaps/a/red", "configmaps/b/round", "ns/a", "ns/b"}},
		"the namespace itself matches": {func(s *berth.Spec) { s.LabelSelector = selector("kubernetes.io/metadata.name", c) }, []string{"ns/c"}},
		"an empty selector among others": {func(s *berth.Spec) {
			s.OrLabelSelectors = []*metav1.LabelSelector{selector("color", "red"), {}}
		}, []string{"configmaps/a/blue", "configmaps/a/both", "configmaps/a/red", "configmaps/b/round", "configmaps/c/plain", "ns/a", "ns/b", "ns/c"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			r := run(a, b, c)
			r.Spec.IncludedNamespaceScopedResources = []string{"configmaps"}
			test.change(&r.Spec)
			if got := f.taken(r, short...); !slices.Equal(got, test.want) {
				t.Errorf("taken: %q\nwant:  %q", got, test.want)
			}
		})
	}
}

func TestExcludedObjectsAndThoseBeingDeletedAreLeftOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ns := f.namespace("skipped")
	f.configMap(ns, "kept", labelled(berth.LabelExclude, "false"))
	f.configMap(ns, "excluded", labelled(berth.LabelExclude, "true"))
	f.configMap(ns, "deleting", func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.com/held"}) })
	client := f.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(ns)
	if err := client.Delete(t.Context(), "deleting", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r := run(ns)
	r.Spec.IncludedResources = []string{"configmaps"}
	if got := f.taken(r, ns, "ns"); !slices.Equal(got, []string{"configmaps/ns/kept"}) {
		t.Errorf("taken: %q", got)
	}
	if p := f.take(backup.Job{Run: nextAttempt(r)}).Outcome.Progress; p.TotalItems != 1 || p.ItemsBackedUp != 1 {
		t.Errorf("progress is %+v", p)
	}
}

func TestOfEverythingOnlyTheContentsAreTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	in, out, appeared := f.namespace("in"), f.namespace("out"), f.namespace("appeared")
	for _, ns := range []string{in, out, appeared} {
		f.configMap(ns, "x", nil)
	}
	r := run()
	r.Spec.ExcludedNamespaces = []string{out}
	r.Spec.IncludedResources = []string{"configmaps", "namespaces"}
	r.Contents.Names = []string{in}
	taken := f.take(backup.Job{Run: r})
	for _, path := range f.plainPaths() {
		if !strings.Contains(path, in) {
			t.Errorf("%s was taken", path)
		}
	}
	if len(f.plainPaths()) != 2 {
		t.Errorf("taken: %q", f.plainPaths())
	}
	if taken.Outcome.Phase != berth.PhaseCompleted {
		t.Errorf("the outcome is %+v", taken.Outcome)
	}
	warnings := f.results().Warnings.Namespaces
	if len(warnings[appeared]) != 1 || !strings.Contains(warnings[appeared][0], "appeared") {
		t.Errorf("warnings: %q", warnings)
	}
	if len(warnings[out])+len(warnings[in]) > 0 {
		t.Errorf("warnings of namespaces that did not appear: %q", warnings)
	}
}

// What a pattern takes in and the contents do not hold is told as well.
func TestAPatternWarnsOfWhatAppeared(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	in, appeared := f.namespace("in"), f.namespace("appeared")
	r := run("in-*", appeared[:len(appeared)-1]+"?")
	r.Spec.IncludedResources = []string{"configmaps"}
	r.Contents.Names = []string{in}
	f.take(backup.Job{Run: r})
	warnings := f.results().Warnings.Namespaces
	if len(warnings[appeared]) != 1 || !strings.Contains(warnings[appeared][0], "appeared") || len(warnings[in]) > 0 {
		t.Errorf("warnings: %q", warnings)
	}
}

func TestContentsThatDifferFromTheSpecAreNoted(t *testing.T) {
	t.Parallel()
	ns := newFixture(t).namespace("there")
	for name, test := range map[string]struct {
		contents         berth.Contents
		change           func(*berth.Spec)
		phase            berth.Phase
		errors, warnings string
		errs, warns      int
	}{
		"a literal does not exist": {
			contents: berth.Contents{Names: []string{ns}, Missing: []string{"nowhere"}},
			phase:    berth.PhasePartiallyFailed, errors: "namespace nowhere does not exist", errs: 1,
		},
		"all literals are missing, but cluster-scoped objects are asked for": {
			contents: berth.Contents{Missing: []string{"nowhere"}},
			change:   func(s *berth.Spec) { s.IncludedClusterScopedResources = []string{"flowschemas"} },
			phase:    berth.PhasePartiallyFailed, errors: "namespace nowhere does not exist", errs: 1,
		},
		"a label leaves one out": {
			contents: berth.Contents{Names: []string{ns}, Excluded: []string{"hidden"}},
			phase:    berth.PhaseCompleted, warnings: "namespace hidden is left out", warns: 1,
		},
		"a pattern matches nothing": {
			phase: berth.PhaseCompleted, warnings: "no namespace matches", warns: 1,
		},
		"a filter names nothing": {
			contents: berth.Contents{Names: []string{ns}},
			change:   func(s *berth.Spec) { s.ExcludedNamespaceScopedResources = []string{"unicorns.example.com"} },
			phase:    berth.PhaseCompleted, warnings: `"unicorns.example.com" names nothing`, warns: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			r := run("some-*")
			r.Contents = test.contents
			// Not the custom resources that other tests make and remove.
			r.Spec.IncludedNamespaceScopedResources = []string{"configmaps"}
			if test.change != nil {
				test.change(&r.Spec)
			}
			o := f.takeAndPublish(r).Outcome
			if o.Phase != test.phase || o.Errors != test.errs || o.Warnings != test.warns {
				t.Errorf("the outcome is %+v", o)
			}
			if got := string(f.gunzipped("nightly-results.gz")); !strings.Contains(unescaped(got), test.errors) || !strings.Contains(unescaped(got), test.warnings) {
				t.Errorf("the results are %s", got)
			}
			if log := string(f.gunzipped("nightly-logs.gz")); strings.Count(log, "level=ERROR") != test.errs || strings.Count(log, "level=WARN") != test.warns {
				t.Errorf("the log reads %s", log)
			}
		})
	}
}

func unescaped(s string) string { return strings.ReplaceAll(s, `\"`, `"`) }

func TestABackupOfNamespacesThatDoNotExistFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := run("nowhere", "nor-here")
	r.Contents = berth.Contents{Missing: []string{"nor-here", "nowhere"}}
	_, err := backup.Take(t.Context(), f.cluster, f.store, backup.Job{Run: r})
	failure := failureOf(t, err)
	o := failure.Outcome()
	if o.Phase != berth.PhaseFailed || o.Reason != backup.ReasonNothingLeft || !strings.Contains(o.FailureReason, "nor-here, nowhere") {
		t.Errorf("the outcome is %+v", o)
	}
	if names := f.storeHolds(); len(names) > 0 {
		t.Errorf("the store holds %q", names)
	}
}

func TestNoNamespaceMeansClusterScopedObjectsOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := run("")
	r.Contents = berth.Contents{}
	o := f.takeAndPublish(r).Outcome
	paths := f.plainPaths()
	if o.Phase != berth.PhaseCompleted || o.Warnings > 0 || len(paths) == 0 {
		t.Errorf("the outcome of %d objects is %+v", len(paths), o)
	}
	for _, path := range paths {
		if !strings.Contains(path, "/cluster/") || strings.HasPrefix(path, "resources/namespaces/") {
			t.Errorf("%s was taken", path)
		}
	}
	if !slices.ContainsFunc(paths, func(s string) bool { return strings.HasPrefix(s, "resources/clusterroles.rbac.authorization.k8s.io/") }) {
		t.Errorf("no ClusterRole among %q", paths)
	}
}

// A policy stands in a ConfigMap beside the Backup objects; what is wrong with it
// is known before the backup starts.
func TestAResourcePolicyOfTheCluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ns, velero := f.namespace("policy"), f.namespace("velero")
	text := func(keys ...string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			data := map[string]any{}
			for _, key := range keys {
				data[key] = "version: v1\nincludeExcludePolicy:\n  excludedNamespaceScopedResources: [configmaps]\n"
			}
			o.Object["data"] = data
		}
	}
	f.configMap(velero, "good", text("policy"))
	f.configMap(velero, "two", text("policy", "another"))
	f.configMap(ns, "left-out", nil)
	for name, want := range map[string]string{"good": "", "two": "has 2 keys", "none": "there is no ConfigMap " + velero + "/none"} {
		r := run(ns)
		r.Spec.ResourcePolicy = &berth.ResourcePolicy{Kind: "configmap", Name: name}
		problems, err := f.cluster.Validate(t.Context(), r.Spec, velero)
		if err != nil || (len(problems) > 0) != (want != "") || want != "" && !strings.Contains(problems[0], want) {
			t.Errorf("%s: %q, %v", name, problems, err)
		}
		_, err = backup.Take(t.Context(), f.cluster, f.store, backup.Job{Run: r, Namespace: velero})
		if (err != nil) != (want != "") || err != nil && failureOf(t, err).Reason != backup.ReasonInvalidSpec {
			t.Errorf("%s: the error is %v", name, err)
		}
		if want == "" && len(f.configMapsOf(ns)) != 0 {
			t.Error("the policy does not count")
		}
	}
}

// Case A50: a namespace that was deleted after the contents were frozen, or is
// being deleted, is left out with a warning, whatever is left in it.
func TestANamespaceThatWasDeletedIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 10} { // looked up one by one, and in a list
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			stays, terminating, gone := f.namespace("stays"), f.namespace("terminating"), f.namespace("gone")
			f.configMap(stays, "x", nil)
			f.configMap(terminating, "x", nil)
			names := []string{stays, terminating, gone}
			for range others {
				names = append(names, f.namespace("other"))
			}
			namespaces := f.typed().CoreV1().Namespaces()
			for _, name := range []string{terminating, gone} {
				if err := namespaces.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			object, err := namespaces.Get(t.Context(), gone, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			object.Spec.Finalizers = nil
			if _, err := namespaces.Finalize(t.Context(), object, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			o := f.takeAndPublish(run(names...)).Outcome
			if o.Phase != berth.PhaseCompleted || o.Warnings != 2 || len(f.configMapsOf(stays)) != 1 || len(f.configMapsOf(terminating)) != 0 {
				t.Errorf("the outcome is %+v: %+v", o, f.results())
			}
			for _, name := range []string{terminating, gone} {
				if lines := f.results().Warnings.Namespaces[name]; len(lines) != 1 || !strings.Contains(lines[0], "was deleted after") {
					t.Errorf("the warnings of %s are %q", name, lines)
				}
			}
		})
	}
}
