package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/berth-backup/berth"
)

// keptOutput is how much of a command's output is kept for the log, in bytes: of
// each stream its end, where a failing program says why.
const keptOutput = 4 << 10

// exec runs a hook's command in a container of a pod, through the API server, and
// returns the end of what it wrote. A command that takes too long goes on in its
// container, where nobody can stop it; what it writes is no longer read.
func (c *Cluster) exec(ctx context.Context, pod berth.Pod, container string, hook berth.ExecHook) (output string, err error) {
	timeout := fmt.Errorf("the command took longer than its timeout of %s", hook.MayTake())
	ctx, cancel := context.WithTimeoutCause(ctx, hook.MayTake(), timeout)
	defer cancel()
	url := c.rest.Post().AbsPath(podPath(pod), "exec").SpecificallyVersionedParams(&corev1.PodExecOptions{
		Container: container, Command: hook.Command, Stdout: true, Stderr: true,
	}, scheme.ParameterCodec, corev1.SchemeGroupVersion).URL()
	websocket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", url.String())
	if err != nil {
		return "", err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, "POST", url)
	if err != nil {
		return "", err
	}
	executor, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return "", err
	}
	var stdout, stderr tail
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return strings.TrimSpace(strings.Join([]string{stdout.String(), stderr.String()}, "\n")), err
}

func podPath(pod berth.Pod) string {
	return "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
	cut  int
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p[max(0, len(p)-keptOutput):]...)
	t.cut += max(0, len(p)-keptOutput)
	if over := len(t.kept) - keptOutput; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
		t.cut += over
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ToValidUTF8(string(t.kept), "\uFFFD")
	if t.cut > 0 {
		return fmt.Sprintf("[%d bytes before this are left out] %s", t.cut, text)
	}
	return text
}

// errNoContainer says that a hook names a container that its pod does not have.
var errNoContainer = errors.New("the pod has no such container")

// containerFor is the container that a hook runs in: the one that it names, which
// may be a sidecar among the init containers, else the pod's first one.
func containerFor(pod *corev1.Pod, hook berth.ExecHook) (string, error) {
	if hook.Container == "" {
		if len(pod.Spec.Containers) == 0 {
			return "", errNoContainer
		}
		return pod.Spec.Containers[0].Name, nil
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == hook.Container {
			return c.Name, nil
		}
	}
	for _, c := range pod.Spec.InitContainers {
		if c.Name == hook.Container && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			return c.Name, nil
		}
	}
	return "", fmt.Errorf("%w: %s", errNoContainer, hook.Container)
}
