package devenv

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// make starts `go run`, which starts the program: whichever of the two is
// killed, the program learns of it.
func TestOrphanedTellsOfParentAndGrandparent(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]int{"grandparent": 0, "parent": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			// Each says who it is, the program once it watches.
			outer := exec.Command("sh", "-c", `echo $$; sh -c 'echo $$; "$0" & wait' "$0" & wait`, os.Args[0])
			outer.Dir, outer.Stderr = dir, os.Stderr
			outer.Env = append(os.Environ(), orphanVariable+"=1")
			out, err := outer.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := outer.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				for _, process := range processesIn(t, dir) {
					pid, err := strconv.Atoi(process)
					if err == nil {
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				}
				_ = outer.Wait() // it was killed
			})
			lines := bufio.NewScanner(out)
			var said []string
			for len(said) < 3 && lines.Scan() {
				said = append(said, strings.TrimSpace(lines.Text()))
			}
			if len(said) != 3 {
				t.Fatalf("of the three only %q spoke", said)
			}
			pid, err := strconv.Atoi(said[killed])
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the program ends", func() bool { return !slices.Contains(processesIn(t, dir), said[2]) })
		})
	}
}
