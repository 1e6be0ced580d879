package devenv

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func clientOf(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestStoppedKubernetesLeavesNothing(t *testing.T) {
	t.Parallel()
	k, err := StartKubernetes(t.Context(), KubernetesOptions{Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	maps := clientOf(t, k.Config).CoreV1().ConfigMaps(metav1.NamespaceDefault)
	sent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "greeting"}, Data: map[string]string{"word": "hello"}}
	if _, err := maps.Create(t.Context(), sent, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := maps.Get(t.Context(), "greeting", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Data["word"] != "hello" {
		t.Errorf("read back %v", got.Data)
	}

	folder := filepath.Dir(k.Kubeconfig)
	if found := processesIn(t, folder); len(found) != 2 {
		t.Errorf("running: %v, want etcd and kube-apiserver", found)
	}
	for range 2 {
		if err := k.Stop(); err != nil {
			t.Error(err)
		}
	}
	if found := processesIn(t, folder); len(found) > 0 {
		t.Errorf("still running: %v", found)
	}
	if !gone(folder) {
		t.Errorf("%s is still there", folder)
	}
}

func TestKubernetesSaysItsVersion(t *testing.T) {
	t.Parallel()
	version, err := clientOf(t, TestKubernetes(t).Config).ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	// A build that the environment names has a version of its own.
	ours := os.Getenv("KUBEBUILDER_ASSETS") == ""
	if version.Major != "1" || version.Minor == "" || ours && version.Minor != "36" {
		t.Errorf("%s.%s (%s)", version.Major, version.Minor, version.GitVersion)
	}
}

func TestKubernetesChecksRights(t *testing.T) {
	t.Parallel()
	stranger := rest.CopyConfig(TestKubernetes(t).Config)
	stranger.BearerToken = "" // anonymous
	_, err := clientOf(t, stranger).CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("listing secrets without a token: %v, want forbidden", err)
	}
	if stranger.TLSClientConfig.Insecure || len(stranger.TLSClientConfig.CAData) == 0 {
		t.Error("the server's certificate is not checked")
	}
}

func TestNamespaceGoesWithItsTest(t *testing.T) {
	t.Parallel()
	k := TestKubernetes(t)
	namespaces := clientOf(t, k.Config).CoreV1().Namespaces()
	var names []string
	t.Run("inner", func(t *testing.T) {
		for range 2 {
			names = append(names, TestNamespace(t, k, "mine"))
		}
		if _, err := namespaces.Get(t.Context(), names[0], metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		// A test may delete its namespace itself.
		if err := namespaces.Delete(t.Context(), names[1], metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	for _, name := range names {
		if _, err := namespaces.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("namespace %s: %v, want not found", name, err)
		}
	}
}

func TestGivenKubeconfigIsUsedAsItIs(t *testing.T) {
	t.Parallel()
	given := TestKubernetes(t)
	k, err := StartKubernetes(t.Context(), KubernetesOptions{Kubeconfig: given.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	if k.Config.Host != given.Config.Host || !bytes.Equal(k.Config.CAData, given.Config.CAData) {
		t.Errorf("host %s, want %s", k.Config.Host, given.Config.Host)
	}
	if err := k.Stop(); err != nil {
		t.Error(err)
	}
	if err := given.ready(t.Context()); err != nil {
		t.Errorf("after Stop of a given server: %v", err)
	}
}
