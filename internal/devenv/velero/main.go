// Command velero prints the path of stock Velero and the folder of its S3 plugin,
// a line each: built from source once.
package main

import (
	"fmt"
	"os"

	"github.com/berth-backup/berth/internal/devenv"
)

func main() {
	ctx, stop := devenv.UntilStopped()
	defer stop()
	velero, plugins, err := devenv.VeleroBinaries(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "velero:", err)
		os.Exit(1)
	}
	fmt.Printf("%s\n%s\n", velero, plugins)
}
