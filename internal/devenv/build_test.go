package devenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBuildSaysTheVersionThatIsPinned(t *testing.T) {
	t.Parallel()
	build, err := newControlPlaneBuild()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(build.module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if pin := "k8s.io/kubernetes " + kubernetesVersion; !strings.Contains(string(text), pin) {
		t.Errorf("tools/controlplane/go.mod does not pin %s", pin)
	}
}

func TestVeleroSaysTheVersionThatIsPinned(t *testing.T) {
	t.Parallel()
	build, err := newSourceBuild("velero")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(build.module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if pin := "github.com/vmware-tanzu/velero " + veleroVersion; !strings.Contains(string(text), pin) {
		t.Errorf("tools/velero/go.mod does not pin %s", pin)
	}
}
