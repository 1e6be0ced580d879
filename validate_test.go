package berth_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-backup/berth"
)

func pointers(problems []berth.FieldError) []string {
	var found []string
	for _, p := range problems {
		found = append(found, p.Pointer)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Each bad spec is refused at every field that is wrong, all at once.
func TestSpecValidate(t *testing.T) {
	t.Parallel()
	list := func(entries ...string) []string { return entries }
	yes, no, group := true, false, "apps"
	tests := map[string]struct {
		spec berth.Spec
		want []string
	}{
		"nothing set":                    {berth.Spec{}, nil},
		"names that nobody can have":     {berth.Spec{IncludedNamespaces: list("ok", "Not", "a_b"), ExcludedNamespaces: list("-x")}, list("/excludedNamespaces/0", "/includedNamespaces/1", "/includedNamespaces/2")},
		"patterns that are none":         {berth.Spec{IncludedNamespaces: list("**", "a|b", "ok-*", "[]"), ExcludedNamespaces: list("{a}")}, list("/excludedNamespaces/0", "/includedNamespaces/0", "/includedNamespaces/1", "/includedNamespaces/3")},
		"a name in both lists":           {berth.Spec{IncludedNamespaces: list("a", "b*"), ExcludedNamespaces: list("c", "a", "b*")}, list("/excludedNamespaces/1", "/excludedNamespaces/2")},
		"a name that a pattern excludes": {berth.Spec{IncludedNamespaces: list("a1"), ExcludedNamespaces: list("a*")}, nil},
		"* among excludes":               {berth.Spec{ExcludedNamespaces: list("a", "*")}, list("/excludedNamespaces/1")},
		"* in both lists":                {berth.Spec{IncludedNamespaces: list("*"), ExcludedNamespaces: list("*")}, list("/excludedNamespaces/0")},
		"* beside others":                {berth.Spec{IncludedNamespaces: list("a", "*", "")}, list("/includedNamespaces/1")},
		"no namespace":                   {berth.Spec{IncludedNamespaces: list("")}, nil},
		"no namespace, empty exclude":    {berth.Spec{IncludedNamespaces: list(""), ExcludedNamespaces: list("")}, nil},
		"both selector kinds":            {berth.Spec{LabelSelector: &metav1.LabelSelector{}, OrLabelSelectors: []*metav1.LabelSelector{{}}}, list("/labelSelector", "/orLabelSelectors")},
		"an empty selector":              {berth.Spec{LabelSelector: &metav1.LabelSelector{}}, nil},
		"a selector that is null":        {berth.Spec{OrLabelSelectors: []*metav1.LabelSelector{{}, nil}}, list("/orLabelSelectors/1")},
		"negative times": {berth.Spec{
			TTL: metav1.Duration{Duration: -1}, CSISnapshotTimeout: metav1.Duration{Duration: -time.Hour}, ItemOperationTimeout: metav1.Duration{Duration: -1},
		}, list("/csiSnapshotTimeout", "/itemOperationTimeout", "/ttl")},
		"old and new lists of resources": {berth.Spec{
			IncludedResources: list("pods"), ExcludedResources: list("secrets"), IncludeClusterResources: &no, IncludedNamespaceScopedResources: list("pods"),
		}, list("/excludedResources", "/includeClusterResources", "/includedResources")},
		"lists of resources": {berth.Spec{
			IncludedResources: list("pods", "*", "a\x00"), ExcludedResources: list("*", "pods", ""),
		}, list("/excludedResources/0", "/excludedResources/1", "/excludedResources/2", "/includedResources/1", "/includedResources/2")},
		"all cluster-scoped ones excluded": {berth.Spec{ExcludedClusterScopedResources: list("*")}, nil},
		"a resource in both new lists": {berth.Spec{
			IncludedClusterScopedResources: list("nodes"), ExcludedClusterScopedResources: list("nodes"),
			IncludedNamespaceScopedResources: list("pods"), ExcludedNamespaceScopedResources: list("*"),
		}, list("/excludedClusterScopedResources/0", "/excludedNamespaceScopedResources/0")},
		"a location that cannot be named": {berth.Spec{StorageLocation: "No\x00"}, list("/storageLocation")},
		"a label of the template":         {berth.Spec{Metadata: berth.Metadata{Labels: map[string]string{"a/b": "ok", "a/b/c": "x", "k": "not ok"}}}, list("/metadata/labels/a~1b~1c", "/metadata/labels/k")},
		"what Berth does not do": {berth.Spec{
			SnapshotVolumes: &yes, VolumeSnapshotLocations: list("x"), DefaultVolumesToRestic: &yes,
			DefaultVolumesToFsBackup: &yes, SnapshotMoveData: &yes, DataMover: "velero", UploaderConfig: json.RawMessage(`{"parallelFilesUpload":2}`),
		}, list("/datamover", "/defaultVolumesToFsBackup", "/defaultVolumesToRestic",
			"/snapshotMoveData", "/snapshotVolumes", "/uploaderConfig", "/volumeSnapshotLocations")},
		"a resource policy": {berth.Spec{ResourcePolicy: &berth.ResourcePolicy{Kind: "ConfigMap", Name: "policy"}}, nil},
		"a resource policy that is none": {berth.Spec{ResourcePolicy: &berth.ResourcePolicy{APIGroup: &group, Kind: "configmap", Name: "No"}},
			list("/resourcePolicy/kind", "/resourcePolicy/name")},
		"a label of volume groups":           {berth.Spec{VolumeGroupSnapshotLabelKey: "example.com/group"}, nil},
		"a label of volume groups that none": {berth.Spec{VolumeGroupSnapshotLabelKey: "a/b/c"}, list("/volumeGroupSnapshotLabelKey")},
		"an order":                           {berth.Spec{OrderedResources: map[string]string{"pods": " a/x , a/y,", "persistentvolumes": "v"}}, nil},
		"an order that cannot be kept": {berth.Spec{OrderedResources: map[string]string{"": "a/x", "pods": "a/x,a/x,a/b/c,/x", "secrets": " , "}},
			list("/orderedResources/", "/orderedResources/pods", "/orderedResources/secrets")},
		"hooks": {berth.Spec{Hooks: berth.Hooks{Resources: []berth.ResourceHook{{
			Name: "freeze", IncludedNamespaces: list("a*"), ExcludedNamespaces: list("ab"), IncludedResources: list("pods"), LabelSelector: &metav1.LabelSelector{},
			Pre:  []berth.HookCommand{{Exec: &berth.ExecHook{Container: "c", Command: list("freeze"), OnError: berth.HookContinue, Timeout: metav1.Duration{Duration: time.Minute}}}},
			Post: []berth.HookCommand{{Exec: &berth.ExecHook{Command: list("thaw"), OnError: berth.HookFail}}},
		}}}}, nil},
		"hooks that cannot run": {berth.Spec{Hooks: berth.Hooks{Resources: []berth.ResourceHook{
			{IncludedNamespaces: list("a**"), ExcludedNamespaces: list("*"), IncludedResources: list("", "pods"), ExcludedResources: list("pods"),
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"k": "not ok"}},
				Pre:           []berth.HookCommand{{}, {Exec: &berth.ExecHook{OnError: "Maybe", Timeout: metav1.Duration{Duration: -1}}}},
				Post:          []berth.HookCommand{{Exec: &berth.ExecHook{Command: list("a\x00")}}}},
		}}}, list("/hooks/resources/0/excludedNamespaces/0", "/hooks/resources/0/excludedResources/0", "/hooks/resources/0/includedNamespaces/0",
			"/hooks/resources/0/includedResources/0", "/hooks/resources/0/labelSelector/matchLabels/k", "/hooks/resources/0/name",
			"/hooks/resources/0/post/0/exec/command/0", "/hooks/resources/0/pre/0/exec", "/hooks/resources/0/pre/1/exec/command",
			"/hooks/resources/0/pre/1/exec/onError", "/hooks/resources/0/pre/1/exec/timeout")},
		"what Berth does not do, turned off": {berth.Spec{
			SnapshotVolumes: &no, DefaultVolumesToFsBackup: &no, SnapshotMoveData: &no, UploaderConfig: json.RawMessage(` {} `),
			VolumeSnapshotLocations: list(), OrderedResources: map[string]string{},
		}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, pointers(test.spec.Validate()), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("pointers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestValidate(t *testing.T) {
	t.Parallel()
	names := map[string]bool{
		"": true, "a": true, "1.13.14.1": true, "a.b-c": true, strings.Repeat("a", 253): true,
		strings.Repeat("a", 254): false, "Invalid_Name!": false, "a..b": false, "-a": false, "a\n": false, "../x": false, "ä": false, "a\x00": false,
	}
	for name, want := range names {
		problems := berth.Request{Name: name}.Validate()
		if accepted := len(problems) == 0; accepted != want || !want && !slices.Equal(pointers(problems), []string{"/name"}) {
			t.Errorf("the name %q: %v, want accepted: %v", name, problems, want)
		}
	}

	all := berth.Request{
		Cluster: "Not a cluster", Name: "Not a name",
		Labels:      map[string]string{"ok": "ok", "a/b/c": "x", "k~": "x", "long": strings.Repeat("x", 64)},
		Annotations: map[string]string{"ok": "anything at all", "not ok": "x", "berth-backup.io/id": "x", "nul": "\x00", "big": strings.Repeat("x", 256<<10)},
		Spec:        berth.Spec{IncludedNamespaces: []string{"*", "a"}, TTL: metav1.Duration{Duration: -1}, StorageLocation: "/"},
	}
	want := []string{
		"/annotations", "/annotations/berth-backup.io~1id", "/annotations/not ok", "/annotations/nul",
		"/cluster", "/labels/a~1b~1c", "/labels/k~0", "/labels/long", "/name",
		"/spec/includedNamespaces/0", "/spec/storageLocation", "/spec/ttl",
	}
	problems := all.Validate()
	if diff := cmp.Diff(want, pointers(problems)); diff != "" {
		t.Errorf("everything wrong at once: pointers (-want +got):\n%s", diff)
	}
	for _, p := range problems {
		if p.Code == "" || p.Detail == "" || p.Parameter != "" {
			t.Errorf("a problem without a word or a sentence: %+v", p)
		}
	}
}

// A generated name is one that a request may have.
func TestGenerateName(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0190f3a0-0000-7000-8000-0000000102ff")
	name := berth.GenerateName(time.Date(2026, 11, 30, 23, 59, 58, 0, time.FixedZone("", -3600)), id)
	if diff := cmp.Diff("backup-20261201005958-vcbaa", name); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if problems := (berth.Request{Name: name}).Validate(); problems != nil {
		t.Errorf("%s: %v", name, problems)
	}
}

// Every phase is one kind of phase, and what is drawn leads from one to another.
func TestPhases(t *testing.T) {
	t.Parallel()
	for _, p := range berth.Phases() {
		kinds := 0
		for _, is := range []bool{p.Waiting(), p.Running(), p.Terminal(), p == berth.PhaseDeleting} {
			if is {
				kinds++
			}
		}
		if kinds != 1 || !p.Valid() {
			t.Errorf("%s is of %d kinds", p, kinds)
		}
		if p.CanBecome(p) || p.CanBecome("") {
			t.Errorf("%s becomes itself or nothing", p)
		}
		if p.Terminal() != p.CanBecome(berth.PhaseDeleting) {
			t.Errorf("deletion follows a terminal phase: %s", p)
		}
	}
	if berth.Phase("Nonsense").Valid() || berth.Phase("").Valid() {
		t.Error("a phase that is none is valid")
	}
}
