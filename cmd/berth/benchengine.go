package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-backup/berth/cmd/berth/bench"
	enginebench "github.com/berth-backup/berth/cmd/berth/bench/engine"
)

func benchEngineCommand() *cobra.Command {
	var options enginebench.Options
	var output string
	command := &cobra.Command{
		Use:   "engine",
		Short: "Measure backups beside a bare list of the same objects and, where it is given, beside stock Velero",
		Long: "Makes namespaces called bench-… in the cluster, takes backups of them with a server and a worker of this program, " +
			"and asks for their removal again. The database is one of its own, which it drops. Not for a cluster that anybody needs.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := errors.Join(requireDatabase(options.DatabaseURL), options.Check()); err != nil {
				return err
			}
			if output != "json" && output != "text" {
				return fmt.Errorf("--output %q: there are json and text", output)
			}
			if options.Config, err = kubernetesConfig(options.Kubeconfig); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			options.Progress = cmd.ErrOrStderr()
			var cells []enginebench.Cell
			options.Cell = func(c enginebench.Cell) error {
				cells = append(cells, c)
				if output == "json" {
					return enginebench.WriteCell(out, c)
				}
				return nil
			}
			if err := bench.InScratch(cmd.Context(), options.DatabaseURL, func(ctx context.Context, databaseURL string) error {
				options.DatabaseURL = databaseURL
				return enginebench.Run(ctx, options)
			}); err != nil {
				return err
			}
			if output == "text" {
				return enginebench.WriteTable(out, cells)
			}
			return enginebench.WriteTable(cmd.ErrOrStderr(), cells)
		},
	}
	flags := command.Flags()
	addDatabaseFlag(flags, &options.DatabaseURL)
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "file that says how to reach the cluster")
	flags.StringVar(&options.StorageURL, "storage-url", "", "bucket or folder for the archives; Velero needs a bucket")
	flags.StringVar(&options.Velero, "velero", "", "stock Velero's program (empty: Velero is not measured)")
	flags.StringVar(&options.VeleroPlugins, "velero-plugins", "", "folder of Velero's S3 plugin")
	flags.IntVar(&options.Rounds, "rounds", 3, "how often each is measured")
	flags.StringSliceVar(&options.Works, "works", enginebench.WorkNames(), "what is backed up")
	flags.StringVarP(&output, "output", "o", "text", "json, an object a line as soon as it is measured and a table on the standard error, or text, the table")
	return command
}
