package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-backup/berth/cmd/berth/bench"
)

func benchCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure Berth on this machine",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("say what to measure: berth bench queue or berth bench engine; or show what was: berth bench show")
		},
	}
	command.AddCommand(benchQueueCommand(), benchEngineCommand(), benchShowCommand())
	return command
}

func benchQueueCommand() *cobra.Command {
	var options bench.QueueOptions
	var output string
	command := &cobra.Command{
		Use:   "queue",
		Short: "Measure dequeues, wake-ups and what else the queue does, in databases of its own that it drops again",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(requireDatabase(options.DatabaseURL), options.Check()); err != nil {
				return err
			}
			options.Progress = cmd.ErrOrStderr()
			out := cmd.OutOrStdout()
			switch output {
			case "json":
				options.Header = func(h bench.Header) error { return bench.WriteHeader(out, h) }
				options.Cell = func(c bench.Cell) error { return bench.WriteCell(out, c) }
				return bench.Queue(cmd.Context(), options)
			case "text":
				var report bench.Report
				options.Header = func(h bench.Header) error { report.Header = h; return nil }
				options.Cell = func(c bench.Cell) error { report.Cells = append(report.Cells, c); return nil }
				if err := bench.Queue(cmd.Context(), options); err != nil {
					return err
				}
				return bench.WriteTable(out, report)
			}
			return fmt.Errorf("--output %q: there are json and text", output)
		},
	}
	flags := command.Flags()
	addDatabaseFlag(flags, &options.DatabaseURL)
	flags.IntSliceVar(&options.Depths, "depths", []int{1000, 10_000, 100_000}, "how many backups wait")
	flags.StringSliceVar(&options.Shapes, "shapes", bench.ShapeNames(), "what they have in their way")
	flags.IntVar(&options.Iterations, "iterations", 200, "how often what is quick is measured")
	flags.StringVarP(&output, "output", "o", "text", "json, an object a line as soon as it is measured, or text, a table at the end")
	return command
}

func benchShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [file]",
		Short: "Show the JSON of a measurement as a table",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := cmd.InOrStdin()
			if len(args) == 1 {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer func() { _ = file.Close() }()
				in = io.Reader(file)
			}
			report, err := bench.ReadReport(in)
			if err != nil {
				return err
			}
			return bench.WriteTable(cmd.OutOrStdout(), report)
		},
	}
}
