package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-backup/berth/migrations"
)

func migrateCommand() *cobra.Command {
	var databaseURL string
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Change or show the version of the database's schema",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("say what to do: berth migrate up, down or version")
		},
	}
	addDatabaseFlag(command.PersistentFlags(), &databaseURL)
	command.AddCommand(
		&cobra.Command{
			Use: "up", Short: "Migrate to this binary's version", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := requireDatabase(databaseURL); err != nil {
					return err
				}
				return migrations.Up(cmd.Context(), databaseURL)
			},
		},
		migrateDownCommand(&databaseURL),
		&cobra.Command{
			Use: "version", Short: "Print the schema's version", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := requireDatabase(databaseURL); err != nil {
					return err
				}
				version, dirty, err := migrations.Version(cmd.Context(), databaseURL)
				if err != nil {
					return err
				}
				note := ""
				if dirty {
					note = " (dirty: its migration broke off)"
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d%s\n", version, note)
				return err
			},
		},
	)
	return command
}

func migrateDownCommand(databaseURL *string) *cobra.Command {
	var steps int
	command := &cobra.Command{
		Use: "down", Short: "Take migrations back: all data that they hold is lost", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireDatabase(*databaseURL); err != nil {
				return err
			}
			if steps < 1 {
				return fmt.Errorf("--steps must be at least 1")
			}
			return migrations.Down(cmd.Context(), *databaseURL, steps)
		},
	}
	command.Flags().IntVar(&steps, "steps", 1, "how many migrations to take back")
	return command
}
