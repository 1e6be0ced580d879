package backup_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/internal/devenv/kubelet"
	"github.com/berth-backup/berth/worker/backup"
)

// theatre is a node whose commands are noted, in the order in which they ended.
type theatre struct {
	*fixture
	*kubelet.Kubelet
	// act answers a command; nil answers all with success.
	act func(ctx context.Context, c kubelet.Command) error

	mu    sync.Mutex
	noted []string
}

func newTheatre(t *testing.T, act func(ctx context.Context, c kubelet.Command) error) *theatre {
	t.Helper()
	th := &theatre{fixture: newFixture(t), act: act}
	th.Kubelet = kubelet.Start(t, th.config, func(ctx context.Context, c kubelet.Command) (err error) {
		if th.act != nil {
			err = th.act(ctx, c)
		}
		th.note(c.Pod + "/" + c.Container + ": " + strings.Join(c.Words, " "))
		return err
	})
	return th
}

func (th *theatre) note(what string) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.noted = append(th.noted, what)
}

// notes are the commands so far, and what the test noted itself.
func (th *theatre) notes() []string {
	th.mu.Lock()
	defer th.mu.Unlock()
	return slices.Clone(th.noted)
}

func (th *theatre) wantNotes(want ...string) {
	th.Helper()
	if diff := cmp.Diff(want, th.notes()); diff != "" {
		th.Errorf("what ran (-want +got):\n%s", diff)
	}
}

// annotated gives a pod hooks of its own.
func annotated(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{}
		for pair := range slices.Chunk(pairs, 2) {
			p.Annotations[pair[0]] = pair[1]
		}
	}
}

const (
	preCommand  = "pre.hook.backup.velero.io/command"
	postCommand = "post.hook.backup.velero.io/command"
)

func freezes(p *corev1.Pod) { annotated(preCommand, "freeze", postCommand, `["thaw", "now"]`)(p) }

func command(words ...string) berth.HookCommand {
	return berth.HookCommand{Exec: &berth.ExecHook{Command: words}}
}

// podsOf are the names of the pods in the archive.
func (f *fixture) podsOf(namespace string) []string {
	f.Helper()
	var names []string
	for _, path := range f.plainPaths() {
		if name, ok := strings.CutPrefix(path, "resources/pods/namespaces/"+namespace+"/"); ok {
			names = append(names, strings.TrimSuffix(name, ".json"))
		}
	}
	return names
}

// A pod is read between its pre hook and its post hook.
func TestAPodIsReadBetweenItsHooks(t *testing.T) {
	t.Parallel()
	var th *theatre
	th = newTheatre(t, func(ctx context.Context, c kubelet.Command) error {
		if c.Words[0] != "freeze" {
			return nil
		}
		client, err := kubernetes.NewForConfig(th.config)
		if err != nil {
			return err
		}
		patch := []byte(`{"metadata":{"labels":{"frozen":"yes"}}}`)
		_, err = client.CoreV1().Pods(c.Namespace).Patch(ctx, c.Pod, "application/merge-patch+json", patch, metav1.PatchOptions{})
		return err
	})
	namespace := th.apart("hooks")
	th.Pod(t, namespace, "db", freezes)
	th.through(backup.Options{}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		if strings.HasSuffix(request.URL.Path, "/pods/db") {
			th.note("read")
		}
		return next.RoundTrip(request)
	})
	taken := th.takeAndPublish(run(namespace))
	th.wantNotes("read", "db/main: freeze", "read", "db/main: thaw now")
	if o := taken.Outcome; o.Phase != berth.PhaseCompleted || o.Progress.HooksAttempted != 2 || o.Progress.HooksFailed != 0 {
		t.Errorf("the outcome is %+v", o)
	}
	if body := string(th.files()["resources/pods/namespaces/"+namespace+"/db.json"]); !strings.Contains(body, `"frozen":"yes"`) {
		t.Errorf("the pod in the archive is the one of before the hook: %s", body)
	}
}

func TestHooksOfTheSpecRunInTheirOrder(t *testing.T) {
	t.Parallel()
	th := newTheatre(t, nil)
	namespace, other := th.apart("hooks"), th.apart("other")
	app := func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "db"}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "agent", Image: "example.com/image"})
	}
	th.Pod(t, namespace, "db", app)
	th.Pod(t, namespace, "web", nil)
	th.Pod(t, other, "db", app)
	th.Pod(t, namespace, "own", func(p *corev1.Pod) { app(p); annotated(preCommand, "mine")(p) })
	th.Pod(t, namespace, "done", func(p *corev1.Pod) { app(p); p.Status.Phase = corev1.PodSucceeded })
	r := run(namespace, other)
	r.ItemBlockWorkerCount = 1
	r.Spec.IncludedNamespaceScopedResources = []string{"pods"}
	agent := command("third")
	agent.Exec.Container = "agent"
	r.Spec.Hooks.Resources = []berth.ResourceHook{
		{Name: "first", IncludedNamespaces: []string{"hooks-*"}, LabelSelector: selector("app", "db"), Pre: []berth.HookCommand{command("first"), command("second")}},
		{Name: "third", ExcludedNamespaces: []string{other}, IncludedResources: []string{"po"}, LabelSelector: selector("app", "db"), Pre: []berth.HookCommand{agent}, Post: []berth.HookCommand{command("last")}},
		{Name: "not for pods", IncludedResources: []string{"deployments"}, Pre: []berth.HookCommand{command("never")}},
		{Name: "not for these", ExcludedResources: []string{"pods"}, Pre: []berth.HookCommand{command("never")}},
	}
	taken := th.takeAndPublish(r)
	// A pod's own hook takes the place of the spec's of that phase, not of the other.
	th.wantNotes("db/main: first", "db/main: second", "db/agent: third", "db/main: last", "own/main: mine", "own/main: last")
	if o := taken.Outcome; o.Phase != berth.PhaseCompleted || o.Progress.HooksAttempted != 6 || o.Progress.ItemsBackedUp != o.Progress.TotalItems {
		t.Errorf("the outcome is %+v", o)
	}
	if got := th.podsOf(namespace); !slices.Equal(got, []string{"db", "done", "own", "web"}) {
		t.Errorf("the archive holds the pods %q", got)
	}
}

// What a failing pre hook means is for its onError to say; unset is Fail.
func TestAFailingHook(t *testing.T) {
	t.Parallel()
	fails := func(_ context.Context, c kubelet.Command) error {
		if c.Words[0] != "fail" {
			return nil
		}
		fmt.Fprint(c.Stderr, "no space left")
		return kubelet.Exit(3)
	}
	for name, test := range map[string]struct {
		pod  func(*corev1.Pod)
		pods []string
		want []string
	}{
		"unset": {annotated(preCommand, "fail", postCommand, "thaw"), nil, []string{"db/main: fail"}},
		"Fail":  {annotated(preCommand, "fail", "pre.hook.backup.velero.io/on-error", "Fail", postCommand, "thaw"), nil, []string{"db/main: fail"}},
		"Continue": {annotated(preCommand, "fail", "pre.hook.backup.velero.io/on-error", "Continue", postCommand, "thaw"),
			[]string{"db"}, []string{"db/main: fail"}},
		"the old spelling":     {annotated("hook.backup.velero.io/command", "fail", "hook.backup.velero.io/container", "main"), nil, []string{"db/main: fail"}},
		"a post hook":          {annotated(postCommand, "fail"), []string{"db"}, []string{"db/main: fail"}},
		"after one that froze": {annotated(preCommand, "freeze", postCommand, "fail"), []string{"db"}, []string{"db/main: freeze", "db/main: fail"}},
		"no such container":    {annotated(preCommand, "fail", "pre.hook.backup.velero.io/container", "none"), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newTheatre(t, fails)
			namespace := th.apart("hooks")
			th.Pod(t, namespace, "db", test.pod)
			taken := th.takeAndPublish(run(namespace))
			th.wantNotes(test.want...)
			if o := taken.Outcome; o.Phase != berth.PhasePartiallyFailed || o.Errors != 1 || o.Progress.HooksFailed != 1 || o.Progress.ItemsBackedUp != o.Progress.TotalItems {
				t.Errorf("the outcome is %+v", o)
			}
			if got := th.podsOf(namespace); !slices.Equal(got, test.pods) {
				t.Errorf("the archive holds the pods %q", got)
			}
			lines := th.results().Errors.Namespaces[namespace]
			if len(lines) != 1 || !strings.Contains(lines[0], "db") || len(test.want) > 0 && !strings.Contains(lines[0], "exit code 3: no space left") {
				t.Errorf("the errors are %q", lines)
			}
		})
	}
}

// Where the first of two pre hooks succeeded, the failure of the second undoes it.
func TestWhatWasFrozenIsThawedThoughTheNextHookFails(t *testing.T) {
	t.Parallel()
	th := newTheatre(t, func(_ context.Context, c kubelet.Command) error {
		if c.Words[0] == "fail" {
			return kubelet.Exit(1)
		}
		return nil
	})
	namespace := th.apart("hooks")
	th.Pod(t, namespace, "db", nil)
	r := run(namespace)
	r.Spec.Hooks.Resources = []berth.ResourceHook{{
		Name: "two", Pre: []berth.HookCommand{command("freeze"), command("fail"), command("never")}, Post: []berth.HookCommand{command("thaw")},
	}}
	th.takeAndPublish(r)
	th.wantNotes("db/main: freeze", "db/main: fail", "db/main: thaw")
	if got := th.podsOf(namespace); len(got) != 0 {
		t.Errorf("the archive holds the pods %q", got)
	}
}

// A hook that hangs is given up after its timeout; whether it froze anything
// nobody knows, so that its pod is thawed.
func TestAHookThatHangs(t *testing.T) {
	t.Parallel()
	th := newTheatre(t, func(ctx context.Context, c kubelet.Command) error {
		if c.Words[0] == "hang" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	namespace := th.apart("hooks")
	th.Pod(t, namespace, "db", annotated(preCommand, "hang", "pre.hook.backup.velero.io/timeout", "300ms", postCommand, "thaw"))
	began := time.Now()
	th.takeAndPublish(run(namespace))
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if notes := th.notes(); !slices.Contains(notes, "db/main: thaw") {
		t.Errorf("what ran: %q", notes)
	}
	lines := th.results().Errors.Namespaces[namespace]
	if len(lines) != 1 || !strings.Contains(lines[0], "longer than its timeout of 300ms") {
		t.Errorf("the errors are %q", lines)
	}
}

func TestAHookThatPrintsMuch(t *testing.T) {
	t.Parallel()
	th := newTheatre(t, func(_ context.Context, c kubelet.Command) error {
		for range 10 << 10 {
			if _, err := fmt.Fprint(c.Stdout, strings.Repeat("x", 1023)+"\n"); err != nil {
				return err
			}
		}
		_, err := fmt.Fprint(c.Stdout, "the end")
		return err
	})
	namespace := th.apart("hooks")
	th.Pod(t, namespace, "db", annotated(preCommand, "print"))
	if o := th.takeAndPublish(run(namespace)).Outcome; o.Phase != berth.PhaseCompleted {
		t.Errorf("the outcome is %+v, %+v", o, th.results())
	}
	log := string(th.gunzipped("nightly-logs.gz"))
	if len(log) > 32<<10 || !strings.Contains(log, "the end") || !strings.Contains(log, "bytes before this are left out") {
		t.Errorf("the log has %d bytes", len(log))
	}
}

func TestAPodThatGoesAwayDuringItsHook(t *testing.T) {
	t.Parallel()
	var th *theatre
	th = newTheatre(t, func(ctx context.Context, c kubelet.Command) error {
		client, err := kubernetes.NewForConfig(th.config)
		if err != nil {
			return err
		}
		now := int64(0)
		return errors.Join(client.CoreV1().Pods(c.Namespace).Delete(ctx, c.Pod, metav1.DeleteOptions{GracePeriodSeconds: &now}), kubelet.Exit(137))
	})
	namespace := th.apart("hooks")
	th.Pod(t, namespace, "db", freezes)
	th.configMap(namespace, "stays", nil)
	o := th.takeAndPublish(run(namespace)).Outcome
	if o.Phase != berth.PhasePartiallyFailed || len(th.podsOf(namespace)) != 0 || len(th.configMapsOf(namespace)) != 1 {
		t.Errorf("the outcome is %+v", o)
	}
}

// The pods that share a claim are quiet together: one block, whose pre hooks all
// run before the first object is read and whose post hooks run after the last.
func TestPodsThatShareAClaimAreOneBlock(t *testing.T) {
	t.Parallel()
	th := newTheatre(t, nil)
	namespace := th.apart("hooks")
	th.claim(namespace, "data", "", nil)
	mounts := func(change func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
			if change != nil {
				change(p)
			}
		}
	}
	th.Pod(t, namespace, "a", mounts(freezes))
	th.Pod(t, namespace, "b", mounts(freezes))
	th.Pod(t, namespace, "c", mounts(nil))
	th.Pod(t, namespace, "d", nil)
	th.through(backup.Options{}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		if strings.Contains(request.URL.Path, "/namespaces/"+namespace+"/") && !request.URL.Query().Has("limit") && !strings.HasSuffix(request.URL.Path, "/exec") {
			th.note("read " + request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:])
		}
		return next.RoundTrip(request)
	})
	th.takeAndPublish(run(namespace))
	th.wantNotes("read a", "a/main: freeze", "read b", "b/main: freeze", "read c",
		"read a", "read b", "read c", "read data", "a/main: thaw now", "b/main: thaw now")
	if got := th.podsOf(namespace); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("the archive holds the pods %q", got)
	}
}

// podLog is a PodLog that outlives its runs.
type podLog struct {
	mu    sync.Mutex
	begun []berth.Pod
	// refuse is what Begin answers.
	refuse error
}

func (l *podLog) Begin(_ context.Context, pod berth.Pod) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = append(l.begun, pod)
	return l.refuse
}

func (l *podLog) End(_ context.Context, pod berth.Pod) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = slices.DeleteFunc(l.begun, func(p berth.Pod) bool { return p == pod })
	return nil
}

func (l *podLog) Begun(context.Context) ([]berth.Pod, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.begun), nil
}

// That a pre hook runs is recorded before it does: the next attempt runs the post
// hook first.
func TestWhatALostAttemptFrozeIsThawedFirst(t *testing.T) {
	t.Parallel()
	ctx, lose := context.WithCancelCause(t.Context())
	log := &podLog{}
	th := newTheatre(t, func(_ context.Context, c kubelet.Command) error {
		if c.Words[0] == "freeze" && ctx.Err() == nil {
			if begun, _ := log.Begun(t.Context()); len(begun) != 1 || begun[0].Name != "db" {
				return fmt.Errorf("recorded: %v", begun)
			}
			lose(berth.ErrLeaseLost)
		}
		return nil
	})
	namespace := th.apart("hooks")
	th.Pod(t, namespace, "db", freezes)
	r := run(namespace)
	if _, err := backup.Take(ctx, th.cluster, th.store, backup.Job{Run: r, Pods: log}); !errors.Is(err, berth.ErrLeaseLost) {
		t.Fatalf("the error is %v", err)
	}
	th.wantNotes("db/main: freeze")
	th.cluster = th.clusterOf(th.config, backup.Options{})
	o := th.take(backup.Job{Run: nextAttempt(r), Pods: log}).Outcome
	th.wantNotes("db/main: freeze", "db/main: thaw now", "db/main: freeze", "db/main: thaw now")
	if o.Phase != berth.PhaseCompleted || len(log.begun) != 0 {
		t.Errorf("the outcome is %+v, left are %v", o, log.begun)
	}
}

// A run that is stopped in order thaws what it froze.
func TestARunThatIsStoppedThawsWhatItFroze(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	stopped, log := errors.New("the worker is shutting down"), &podLog{}
	th := newTheatre(t, nil)
	namespace := th.apart("hooks")
	th.Pod(t, namespace, "db", freezes)
	reads := 0
	th.through(backup.Options{}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		if strings.HasSuffix(request.URL.Path, "/pods/db") {
			if reads++; reads == 2 {
				stop(stopped)
			}
		}
		return next.RoundTrip(request)
	})
	if _, err := backup.Take(ctx, th.cluster, th.store, backup.Job{Run: run(namespace), Pods: log}); !errors.Is(err, stopped) {
		t.Errorf("the error is %v", err)
	}
	th.wantNotes("db/main: freeze", "db/main: thaw now")
	if len(log.begun) != 0 {
		t.Errorf("left are %v", log.begun)
	}
}

// What cannot be recorded is not frozen.
func TestAHookThatCannotBeRecordedDoesNotRun(t *testing.T) {
	t.Parallel()
	th := newTheatre(t, nil)
	namespace := th.apart("hooks")
	th.Pod(t, namespace, "db", freezes)
	away := errors.New("the database is away")
	if _, err := backup.Take(t.Context(), th.cluster, th.store, backup.Job{Run: run(namespace), Pods: &podLog{refuse: away}}); !errors.Is(err, away) {
		t.Errorf("the error is %v", err)
	}
	th.wantNotes()
}
