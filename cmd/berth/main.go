// Command berth is all of Berth: the server, the worker and the migrations.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		// The first signal asks for an orderly end; from here on the second one
		// ends the process at once.
		stop()
	}()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "berth:", oneLine(err))
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "berth",
		Short:         "Berth queues and runs Kubernetes backups on Postgres",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		// Every flag can also be set as BERTH_… in the environment.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags(), os.LookupEnv) },
	}
	root.AddCommand(serverCommand(), workerCommand(), migrateCommand(), backupCommand(), benchCommand())
	return root
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
