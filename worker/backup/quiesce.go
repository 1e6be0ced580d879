package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/exec"

	"github.com/berth-backup/berth"
)

// PodLog remembers, across attempts, the pods of a backup whose pre hooks have
// begun and whose post hooks have not ended.
type PodLog interface {
	// Begin is called before the first pre hook of a pod runs.
	Begin(ctx context.Context, pod berth.Pod) error
	// End is called when the post hooks of a pod have run.
	End(ctx context.Context, pod berth.Pod) error
	// Begun are the pods that have begun and not ended.
	Begun(ctx context.Context) ([]berth.Pod, error)
}

// closingTime bounds what post hooks may take after a run was stopped.
const closingTime = 8 * time.Second

// hookCounts are Velero's HookStatus.
type hookCounts struct {
	mu                sync.Mutex
	attempted, failed int
}

func (h *hookCounts) add(failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attempted++
	if failed {
		h.failed++
	}
}

// quiesced are the pods of one block whose post hooks are due.
type quiesced struct {
	collector *collector
	due       []quiescedPod
}

type quiescedPod struct {
	pod   berth.Pod
	spec  *corev1.Pod
	post  []namedHook
	begun bool
}

// quiesce runs the pre hooks of a block's pods. dropped are the keys of those
// whose hook failed so that they are no part of the backup.
func (q *quiesced) quiesce(ctx context.Context, items []item) (dropped map[string]bool, err error) {
	dropped = map[string]bool{}
	for _, i := range items {
		if i.resource.String() != resourcePods {
			continue
		}
		ok, err := q.quiescePod(ctx, i)
		if err != nil {
			return nil, err
		}
		if !ok {
			dropped[i.key()] = true
		}
	}
	return dropped, nil
}

// quiescePod runs the pre hooks of one pod; false where it is no part of the
// backup then.
func (q *quiesced) quiescePod(ctx context.Context, i item) (bool, error) {
	c := q.collector
	raw, err := c.cluster.get(ctx, i.resource, i.namespace, i.name)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case errors.Is(err, errNoAnswer):
		return false, fmt.Errorf("get %s: %w", i, err)
	case statusOf(err) == http.StatusNotFound:
		return true, nil // whoever archives it says so
	case err != nil:
		c.results.error(i.namespace, fmt.Sprintf("get %s before its hooks: %v", i, err))
		return false, nil
	}
	pod, pre, due, err := c.hooksOf(raw)
	if err != nil {
		c.results.error(i.namespace, fmt.Sprintf("read the hooks of %s: %v", i, err))
		return false, nil
	}
	if len(pre) == 0 {
		if len(due.post) > 0 {
			q.due = append(q.due, due)
		}
		return true, nil
	}
	// What is not recorded is not frozen: the next attempt would not know of it.
	if err := c.pods.Begin(ctx, due.pod); err != nil {
		return false, fmt.Errorf("record that the hooks of pod %s begin: %w", due.pod, err)
	}
	due.begun = true
	took, failed := c.runHooks(ctx, preHook, pod, due.pod, pre)
	if !took {
		// None of them did anything: there is nothing to undo.
		return !failed, c.pods.End(ctx, due.pod)
	}
	q.due = append(q.due, due)
	return !failed, nil
}

// hooksOf reads a pod and the hooks that it has; none where it takes no part in
// the backup or has no container that runs.
func (c *collector) hooksOf(raw []byte) (pod *corev1.Pod, pre []namedHook, due quiescedPod, err error) {
	h, err := headOf(raw)
	if err != nil {
		return nil, nil, due, err
	}
	relations, err := podOf(raw)
	if err != nil {
		return nil, nil, due, err
	}
	pod = &corev1.Pod{}
	if err := json.Unmarshal(raw, pod); err != nil {
		return nil, nil, due, err
	}
	due = quiescedPod{pod: berth.Pod{Namespace: h.namespace, Name: h.name, UID: string(pod.UID)}, spec: pod}
	if h.excluded || h.deleting || relations.ended {
		return pod, nil, due, nil
	}
	pre, warnings := hooksFor(preHook, h, relations.annotations, c.plan.hooks)
	post, more := hooksFor(postHook, h, relations.annotations, c.plan.hooks)
	due.post = post
	for _, warning := range append(warnings, more...) {
		c.results.warning(h.namespace, fmt.Sprintf("pod %s: %s", due.pod, warning))
	}
	return pod, pre, due, nil
}

// runHooks runs hooks of one phase in their order. took says that one of them
// may have changed something: it succeeded, or nobody knows how it ended. failed
// says that one failed whose failure counts, after which no further one ran.
func (c *collector) runHooks(ctx context.Context, phase hookPhase, spec *corev1.Pod, pod berth.Pod, hooks []namedHook) (took, failed bool) {
	for _, hook := range hooks {
		container, err := containerFor(spec, hook.ExecHook)
		var output string
		if err == nil {
			output, err = c.cluster.exec(ctx, pod, container, hook.ExecHook)
		}
		c.hookCounts.add(err != nil)
		took = took || err == nil || endIsUnknown(err)
		if err == nil {
			c.results.log.info("hook ran", "phase", phase, "hook", hook.name, "pod", pod.String(), "container", container, "output", output)
			continue
		}
		text := fmt.Sprintf("%s hook %s of pod %s, container %s, %q: %v", phase, hook.name, pod, container, hook.Command, err)
		if output != "" {
			text += ": " + output
		}
		c.results.error(pod.Namespace, text)
		if hook.Fails() {
			return took, true
		}
	}
	return took, false
}

// endIsUnknown errors leave open what a command did; an exit code and a container
// that does not exist do not.
func endIsUnknown(err error) bool {
	var exit exec.CodeExitError
	return !errors.As(err, &exit) && !errors.Is(err, errNoContainer)
}

// release runs the post hooks that are due. Where the run was stopped it has
// closingTime left for them; where its lease is lost it runs none: the record
// says to the next attempt that they are due.
func (q *quiesced) release(ctx context.Context) error {
	if len(q.due) == 0 {
		return nil
	}
	c := q.collector
	ctx, cancel := c.closing(ctx)
	defer cancel()
	var problems []error
	for _, due := range q.due {
		if ctx.Err() != nil {
			return errors.Join(append(problems, context.Cause(ctx))...)
		}
		c.runHooks(ctx, postHook, due.spec, due.pod, due.post)
		// One that was cut off is due again.
		if due.begun && ctx.Err() == nil {
			problems = append(problems, c.pods.End(ctx, due.pod))
		}
	}
	return errors.Join(problems...)
}

// closing is the time for post hooks: that of the lease, however the rest of the
// run fares, and a short one where the run was stopped while its lease goes on.
func (c *collector) closing(ctx context.Context) (context.Context, context.CancelFunc) {
	switch {
	case ctx.Err() == nil:
		return ctx, func() {}
	case c.lease.Err() == nil:
		return c.lease, func() {}
	case errors.Is(context.Cause(c.lease), berth.ErrLeaseLost):
		return c.lease, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(c.lease), closingTime)
}

// thaw runs the post hooks that a former attempt left undone. A pod that is gone,
// or whose name another one has now, has nothing left to thaw.
func (c *collector) thaw(ctx context.Context) error {
	begun, err := c.pods.Begun(ctx)
	if err != nil {
		return fmt.Errorf("find the pods that a former attempt left frozen: %w", err)
	}
	for _, pod := range begun {
		if err := c.thawPod(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) thawPod(ctx context.Context, pod berth.Pod) error {
	raw, err := c.cluster.get(ctx, resource{version: "v1", plural: resourcePods}, pod.Namespace, pod.Name)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case statusOf(err) == http.StatusNotFound:
		c.results.log.info("a pod that a former attempt left frozen is gone", "pod", pod.String())
		return c.pods.End(ctx, pod)
	case err != nil:
		return fmt.Errorf("thaw pod %s: %w", pod, err)
	}
	spec, _, due, err := c.hooksOf(raw)
	if err != nil {
		return fmt.Errorf("thaw pod %s: %w", pod, err)
	}
	if due.pod == pod {
		c.results.log.info("a former attempt left a pod frozen: its post hooks run first", "pod", pod.String())
		c.runHooks(ctx, postHook, spec, pod, due.post)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.pods.End(ctx, pod)
}

// noPodLog is the PodLog of a run that has none: nothing outlives it.
type noPodLog struct{}

func (noPodLog) Begin(context.Context, berth.Pod) error     { return nil }
func (noPodLog) End(context.Context, berth.Pod) error       { return nil }
func (noPodLog) Begun(context.Context) ([]berth.Pod, error) { return nil, nil }
