// Command controlplane prints the paths of an etcd and a kube-apiserver, a line
// each: what is installed, else built from source once.
package main

import (
	"fmt"
	"os"

	"github.com/berth-backup/berth/internal/devenv"
)

func main() {
	ctx, stop := devenv.UntilStopped()
	defer stop()
	etcd, apiserver, err := devenv.ControlPlaneBinaries(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
	fmt.Printf("%s\n%s\n", etcd, apiserver)
}
