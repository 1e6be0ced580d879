package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/objectstore"
	"github.com/berth-backup/berth/worker/backup"
)

func backupCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "backup",
		Short: "Look after backups",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return errors.New("say what to do: berth backup verify NAME") },
	}
	command.AddCommand(verifyCommand())
	return command
}

func verifyCommand() *cobra.Command {
	var databaseURL, cluster string
	command := &cobra.Command{
		Use:   "verify NAME",
		Short: "Read a backup in the store again and hold it against what was written",
		Long: "Reads every object of a backup again: its length and SHA-256 are held against the row and velero-backup.json, " +
			"the archive's objects against the list of resources. Credentials of the store come from the environment. " +
			"It ends with 1, and a line for each difference, where the backup is not as it was written.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireDatabase(databaseURL); err != nil {
				return err
			}
			return verify(cmd.Context(), databaseURL, cluster, args[0], cmd.OutOrStdout())
		},
	}
	addDatabaseFlag(command.Flags(), &databaseURL)
	command.Flags().StringVar(&cluster, "cluster", berth.DefaultCluster, "name of the cluster")
	return command
}

func verify(ctx context.Context, databaseURL, cluster, name string, out io.Writer) (err error) {
	store, err := db.Open(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer store.Close()
	b, err := store.BackupNamed(ctx, cluster, name)
	if err != nil {
		return err
	}
	if b.Artifacts == nil {
		return fmt.Errorf("backup %s of cluster %s is %s: it has no archive", name, cluster, b.Phase)
	}
	location, err := store.StorageLocation(ctx, cluster, b.Spec.Location())
	if err != nil {
		return fmt.Errorf("find the storage location: %w", err)
	}
	objects, err := objectstore.Open(ctx, location.URL, location.Prefix)
	if err != nil {
		return fmt.Errorf("open storage location %s: %w", location.Name, err)
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	found, err := backup.Verify(ctx, objects, backup.Recorded{ID: b.ID, Name: b.Name, Artifacts: b.Artifacts, Kinds: b.Kinds})
	if err != nil {
		return err
	}
	for _, difference := range found.Differences {
		if _, err := fmt.Fprintln(out, difference); err != nil {
			return err
		}
	}
	if n := len(found.Differences); n > 0 {
		return fmt.Errorf("backup %s is not as it was written: %d differences", name, n)
	}
	_, err = fmt.Fprintf(out, "backup %s is as it was written: %d objects of the store, %d bytes, %d items of %d kinds\n",
		name, found.Objects, found.Bytes, found.Items, len(b.Kinds))
	return err
}
