package backup_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/worker/backup"
)

// typed reaches the cluster apart from what is tested.
func (f *fixture) typed() kubernetes.Interface {
	f.Helper()
	client, err := kubernetes.NewForConfig(f.config)
	if err != nil {
		f.Fatal(err)
	}
	return client
}

// away removes a cluster-scoped object when the test ends.
func (f *fixture) away(remove func(ctx context.Context) error) {
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := remove(ctx); err != nil {
			f.Error(err)
		}
	})
}

func (f *fixture) pod(namespace, name string, change func(*corev1.Pod)) {
	f.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/image"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	change(p)
	status := p.Status
	pods := f.typed().CoreV1().Pods(namespace)
	p, err := pods.Create(f.Context(), p, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	p.Status = status
	if _, err := pods.UpdateStatus(f.Context(), p, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
}

func mounts(claims ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, claim := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		}
	}
}

func (f *fixture) priorityClass(name string) {
	f.Helper()
	classes := f.typed().SchedulingV1().PriorityClasses()
	if _, err := classes.Create(f.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 7}, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
	f.away(func(ctx context.Context) error { return classes.Delete(ctx, name, metav1.DeleteOptions{}) })
}

// bound makes a ClusterRole and a ClusterRoleBinding of that name for a ServiceAccount.
func (f *fixture) bound(name, namespace, account string) {
	f.Helper()
	rbac := f.typed().RbacV1()
	if _, err := rbac.ClusterRoles().Create(f.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
	f.away(func(ctx context.Context) error { return rbac.ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{}) })
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account}},
	}
	if _, err := rbac.ClusterRoleBindings().Create(f.Context(), binding, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
	f.away(func(ctx context.Context) error {
		return rbac.ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// What the objects of a namespace need comes with them, though its type is not
// included, unless it is excluded.
func TestRelatedObjectsAreTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ns := f.namespace("related")
	other := f.namespace("stranger")
	id := suffixOf(ns)
	f.claim(ns, "data", "volume-"+id, nil)
	f.priorityClass("class-" + id)
	f.pod(ns, "db", func(p *corev1.Pod) { mounts("data")(p); p.Spec.PriorityClassName = "class-" + id })
	if _, err := f.typed().CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.bound("system:robot:"+id, ns, "robot")
	f.bound("stranger-"+id, other, "robot")
	kinds := "a" + id + ".example.com"
	f.apply("crds.yaml", "", "GROUP", kinds)
	f.create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kinds + "/v1", "kind": "Widget", "metadata": map[string]any{"name": "widget", "namespace": ns},
	}}, ns)

	volume := "persistentvolumes/cluster/volume-" + id
	class := "priorityclasses.scheduling.k8s.io/cluster/class-" + id
	role, binding := "clusterroles.rbac.authorization.k8s.io/cluster/system:robot:"+id, "clusterrolebindings.rbac.authorization.k8s.io/cluster/system:robot:"+id
	definition := "customresourcedefinitions.apiextensions.k8s.io/cluster/widgets." + kinds
	no := false
	for name, test := range map[string]struct {
		change func(*berth.Spec)
		want   []string
	}{
		"a namespace":                  {func(*berth.Spec) {}, []string{volume, class, role, binding, definition}},
		"pods alone":                   {func(s *berth.Spec) { s.IncludedResources = []string{"pods"} }, []string{class}},
		"claims alone":                 {func(s *berth.Spec) { s.IncludedResources = []string{"pvc"} }, []string{volume}},
		"accounts alone":               {func(s *berth.Spec) { s.IncludedNamespaceScopedResources = []string{"sa"} }, []string{role, binding}},
		"custom resources alone":       {func(s *berth.Spec) { s.IncludedResources = []string{"widgets." + kinds} }, []string{definition}},
		"no cluster-scoped ones":       {func(s *berth.Spec) { s.IncludeClusterResources = &no }, nil},
		"all but volumes and bindings": {func(s *berth.Spec) { s.ExcludedClusterScopedResources = []string{"pv", "clusterrolebindings"} }, []string{class, definition}},
		"all but roles and definitions": {func(s *berth.Spec) { s.ExcludedResources = []string{"clusterroles", "crd"} },
			[]string{volume, class, binding}},
		"bindings without their roles' type": {func(s *berth.Spec) {
			s.IncludedClusterScopedResources = []string{"clusterrolebindings"}
			s.IncludedNamespaceScopedResources = []string{"sa"}
		}, []string{role, binding, "clusterrolebindings.rbac.authorization.k8s.io/cluster/stranger-" + id}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			r := run(ns)
			test.change(&r.Spec)
			o := f.takeAndPublish(r).Outcome
			if o.Phase != berth.PhaseCompleted || o.Progress.ItemsBackedUp != o.Progress.TotalItems {
				t.Errorf("the outcome is %+v: %+v", o, f.results())
			}
			var got []string
			for _, path := range f.plainPaths() {
				path = strings.TrimSuffix(strings.TrimPrefix(path, "resources/"), ".json")
				if strings.Contains(path, "/cluster/") && !strings.HasPrefix(path, "namespaces/") && strings.Contains(path, id) {
					got = append(got, path)
				}
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("cluster-scoped objects (-want +got):\n%s", diff)
			}
		})
	}
}

// A selector that chooses a pod chooses what it needs, and what that needs.
func TestRelatedObjectsAreTakenWithASelector(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ns := f.namespace("chosen")
	id := suffixOf(ns)
	f.claim(ns, "data", "chosen-"+id, nil)
	f.claim(ns, "grouped", "", map[string]string{"velero.io/volume-group": "g"})
	f.claim(ns, "member", "", map[string]string{"velero.io/volume-group": "g"})
	f.claim(ns, "stranger", "", map[string]string{"velero.io/volume-group": "h"})
	f.pod(ns, "db", func(p *corev1.Pod) { mounts("data")(p); p.Labels = map[string]string{"app": "db"} })
	f.pod(ns, "reader", mounts("data", "grouped"))
	f.pod(ns, "ended", func(p *corev1.Pod) { mounts("data")(p); p.Status.Phase = corev1.PodSucceeded })
	f.pod(ns, "other", mounts("stranger"))
	f.configMap(ns, "unlabelled", nil)
	r := run(ns)
	r.Spec.LabelSelector = selector("app", "db")
	want := []string{
		"ns/" + ns, "persistentvolumeclaims/" + ns + "/data", "persistentvolumeclaims/" + ns + "/grouped", "persistentvolumeclaims/" + ns + "/member",
		"persistentvolumes/cluster/chosen-" + id, "pods/" + ns + "/db", "pods/" + ns + "/reader",
	}
	if diff := cmp.Diff(want, f.taken(r)); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
	// The key of the label is the spec's to choose.
	r.Spec.VolumeGroupSnapshotLabelKey = "example.com/none"
	f = newFixture(t)
	want = slices.DeleteFunc(want, func(s string) bool { return strings.HasSuffix(s, "/member") })
	if diff := cmp.Diff(want, f.taken(r)); diff != "" {
		t.Errorf("taken with another label (-want +got):\n%s", diff)
	}
}

// Objects of orderedResources are read first, in their order, by one worker.
func TestOrderedResourcesComeFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ns := f.namespace("ordered")
	f.configMaps(ns, 5)
	f.configMap(ns, "excluded", labelled(berth.LabelExclude, "true"))
	f.pod(ns, "db-0", mounts())
	f.pod(ns, "db-1", mounts())
	r := run(ns)
	r.Spec.OrderedResources = map[string]string{
		"pods": ns + "/db-1," + ns + "/db-0", "cm": ns + "/config-00003, " + ns + "/none," + ns + "/config-00001," + ns + "/excluded",
		"secrets": "elsewhere/x", "nothings": "a/b",
	}
	o := f.takeAndPublish(r).Outcome
	if o.Phase != berth.PhaseCompleted || o.Warnings != 3 || o.Progress.ItemsBackedUp != o.Progress.TotalItems {
		t.Errorf("the outcome is %+v: %+v", o, f.results())
	}
	warnings := fmt.Sprint(f.results().Warnings)
	for _, want := range []string{"configmaps " + ns + "/none, which orderedResources names, does not exist", `secrets "elsewhere/x" is in no namespace`, `takes no "nothings"`} {
		if !strings.Contains(warnings, want) {
			t.Errorf("the warnings %s lack %q", warnings, want)
		}
	}
	var order []string
	for _, header := range f.headers() {
		if name, ok := strings.CutPrefix(header.Name, "resources/configmaps/namespaces/"+ns+"/"); ok {
			order = append(order, name)
		}
		if name, ok := strings.CutPrefix(header.Name, "resources/pods/namespaces/"+ns+"/"); ok {
			order = append(order, name)
		}
	}
	at := func(name string) int { return slices.Index(order, name+".json") }
	if at("config-00003") > at("config-00001") || at("config-00001") > at("config-00000") || at("db-1") > at("db-0") {
		t.Errorf("the order is %q", order)
	}
}

// Case A12: one list of pods and one of claims, however many mount each other,
// and the last tenth as fast as the first.
func TestManyPodsAndClaimsAreListedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ns := f.apart("many")
	var group errgroup.Group
	group.SetLimit(16)
	for i := range 500 {
		group.Go(func() error { f.claim(ns, fmt.Sprintf("claim-%03d", i), "", nil); return nil })
	}
	for i := range 2000 {
		group.Go(func() error {
			f.pod(ns, fmt.Sprintf("pod-%04d", i), func(p *corev1.Pod) {
				mounts(fmt.Sprintf("claim-%03d", i%500))(p)
				if i%500 == 0 {
					p.Labels = map[string]string{"first": "yes"}
				}
			})
			return nil
		})
	}
	_ = group.Wait()
	for name, change := range map[string]func(*berth.Spec){
		"all":      func(*berth.Spec) {},
		"selected": func(s *berth.Spec) { s.LabelSelector = selector("first", "yes") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var pods, claims, gets atomic.Int32
			f.through(backup.Options{}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
				switch path := request.URL.Path; {
				case strings.HasSuffix(path, "/"+ns+"/pods"):
					pods.Add(1)
				case strings.HasSuffix(path, "/"+ns+"/persistentvolumeclaims"):
					claims.Add(1)
				case strings.Contains(path, "/"+ns+"/pods/"), strings.Contains(path, "/"+ns+"/persistentvolumeclaims/"):
					gets.Add(1)
				}
				return next.RoundTrip(request)
			})
			r := run(ns)
			r.Spec.IncludedNamespaceScopedResources = []string{"pods", "pvc"}
			change(&r.Spec)
			var mu sync.Mutex
			var times []time.Time
			taken := f.take(backup.Job{Run: r, Progress: func(p berth.Progress) {
				mu.Lock()
				defer mu.Unlock()
				for len(times) < p.ItemsBackedUp {
					times = append(times, time.Now())
				}
			}})
			if pods.Load() != 4 || claims.Load() != 1 || gets.Load() > 5 {
				t.Errorf("%d pages of pods, %d of claims, %d objects one by one", pods.Load(), claims.Load(), gets.Load())
			}
			items := taken.Outcome.Progress.ItemsBackedUp
			if want := map[string]int{"all": 2000 + 500, "selected": 4 + 1}[name]; items != want {
				t.Errorf("%d items, want %d", items, want)
			}
			if name != "all" {
				return
			}
			whole, lastTenth := times[items-1].Sub(times[0]), times[items-1].Sub(times[items*9/10-1])
			if lastTenth > whole/2 {
				t.Errorf("the last tenth of %d items took %s of %s", items, lastTenth, whole)
			}
		})
	}
}

// Where there is no room for the bodies that wait, they are read again.
func TestWhatDoesNotFitTheShelfIsReadAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ns := f.apart("shelf")
	f.claim(ns, "data", "", nil)
	var group errgroup.Group
	group.SetLimit(8)
	for i := range 150 {
		group.Go(func() error {
			f.pod(ns, fmt.Sprintf("pod-%03d", i), func(p *corev1.Pod) {
				mounts("data")(p)
				p.Annotations = map[string]string{"long": strings.Repeat("x", 10_000)}
			})
			return nil
		})
	}
	_ = group.Wait()
	f.cluster = f.clusterOf(f.config, backup.Options{Memory: 1 << 20}) // of which a quarter is the shelf
	r := run(ns)
	o := f.takeAndPublish(r).Outcome
	if got := len(f.podsOf(ns)); got != 150 || o.Phase != berth.PhaseCompleted || o.Progress.ItemsBackedUp != o.Progress.TotalItems {
		t.Errorf("%d of 150 pods are in the archive, the outcome is %+v", got, o)
	}
}

// A warning names the claims whose data is not in the backup, unless the spec says
// that it is not meant to be.
func TestTheDataOfClaimsIsWarnedOf(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ns := f.namespace("data")
	f.claim(ns, "a", "", nil)
	f.claim(ns, "b", "", nil)
	no := false
	for _, asked := range []*bool{nil, &no} {
		f = newFixture(t)
		r := run(ns)
		r.Spec.SnapshotVolumes = asked
		f.takeAndPublish(r)
		lines := f.results().Warnings.Namespaces[ns]
		if warned := len(lines) == 1 && strings.HasSuffix(lines[0], ": a, b"); warned != (asked == nil) {
			t.Errorf("snapshotVolumes %v: the warnings are %q", asked, lines)
		}
	}
}
