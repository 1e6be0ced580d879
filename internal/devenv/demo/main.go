// Command demo runs Berth's main job on a real Postgres and a real Kubernetes
// API: the five-backup example of Velero's design document, sent with curl, and
// checks from what was answered, logged and mirrored that all of it held. With
// -dev it keeps the same set-up running instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/berth-backup/berth/internal/devenv"
)

func main() {
	dev := flag.Bool("dev", false, "keep the set-up running until Ctrl-C instead of running the example")
	against := flag.String("against", "", "compose: run against the containers that BERTH_DEMO_… in the environment name")
	flag.Parse()
	ctx, stop := devenv.UntilStopped()
	defer stop()
	err := run(ctx, *dev, *against)
	switch {
	case *dev && err == nil:
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\ndemo: stopped")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "\ndemo: FAILED:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dev bool, against string) (err error) {
	var s *setup
	switch against {
	case "":
		s, err = startLocal(ctx)
	case "compose":
		s, err = fromCompose(ctx)
	default:
		return fmt.Errorf("-against %q: only compose is known", against)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if dev {
		return s.keep(ctx)
	}
	return example(ctx, s)
}

// say prints one line of the demo's own.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
