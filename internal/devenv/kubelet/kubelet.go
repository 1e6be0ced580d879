// Package kubelet is a small kubelet for tests: a node of a real API server whose
// pods run nothing but the commands that the test executes in them.
package kubelet

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/exec"
)

// Command is what a test sees of a command that is executed in a pod.
type Command struct {
	Namespace, Pod, Container string
	Words                     []string
	Stdout, Stderr            io.Writer
}

// Exit makes a command end with an exit code.
func Exit(code int) error {
	return exec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
}

// Kubelet serves one node.
type Kubelet struct {
	node   string
	client kubernetes.Interface
}

// Start makes a node, whose commands run is called for. Its context ends with the
// connection of whoever asked. The node goes when the test ends.
func Start(tb testing.TB, config *rest.Config, run func(ctx context.Context, c Command) error) *Kubelet {
	tb.Helper()
	routes := http.NewServeMux()
	api.AttachPodRoutes(api.PodHandlerConfig{
		RunInContainer: func(ctx context.Context, namespace, pod, container string, words []string, attach api.AttachIO) error {
			return run(ctx, Command{namespace, pod, container, words, attach.Stdout(), attach.Stderr()})
		},
		StreamIdleTimeout: time.Minute, StreamCreationTimeout: time.Minute,
	}, routes, false)
	server := httptest.NewTLSServer(routes)
	tb.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	k := &Kubelet{node: "node-" + strings.ToLower(rand.Text()[:8]), client: client}
	k.register(tb, server.Listener.Addr().(*net.TCPAddr).Port)
	return k
}

func (k *Kubelet) register(tb testing.TB, port int) {
	tb.Helper()
	nodes := k.client.CoreV1().Nodes()
	node, err := nodes.Create(tb.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.node}}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("make a node: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := nodes.Delete(ctx, k.node, metav1.DeleteOptions{}); err != nil {
			tb.Errorf("remove node %s: %v", k.node, err)
		}
	})
	node.Status = corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
	}
	if _, err := nodes.UpdateStatus(tb.Context(), node, metav1.UpdateOptions{}); err != nil {
		tb.Fatalf("make a node: %v", err)
	}
}

// Pod makes a pod that runs on the node, with one container called "main"; change,
// if not nil, makes it special.
func (k *Kubelet) Pod(tb testing.TB, namespace, name string, change func(*corev1.Pod)) *corev1.Pod {
	tb.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       corev1.PodSpec{NodeName: k.node, Containers: []corev1.Container{{Name: "main", Image: "example.com/image"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if change != nil {
		change(pod)
	}
	status := pod.Status
	pods := k.client.CoreV1().Pods(namespace)
	pod, err := pods.Create(tb.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("make a pod: %v", err)
	}
	pod.Status = status
	if pod, err = pods.UpdateStatus(tb.Context(), pod, metav1.UpdateOptions{}); err != nil {
		tb.Fatalf("make a pod run: %v", err)
	}
	return pod
}
