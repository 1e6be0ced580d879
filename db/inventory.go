package db

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// SyncNamespaces writes the complete list of a cluster's namespaces: those that
// it does not name are gone. From the first time on, patterns can be resolved.
func (s *Store) SyncNamespaces(ctx context.Context, clusterName string, all []berth.Namespace) error {
	return s.changeInventory(ctx, clusterName, true, all)
}

// ChangeNamespaces writes namespaces that appeared, went (Exists false) or
// whose exclude label changed.
func (s *Store) ChangeNamespaces(ctx context.Context, clusterName string, changed []berth.Namespace) error {
	return s.changeInventory(ctx, clusterName, false, changed)
}

// changeInventory is one transaction: the gate, then the inventory's exclusive
// lock, the namespaces, a new inventory version, and the claims of every queued
// backup that it concerns. A list that changes nothing writes nothing.
func (s *Store) changeInventory(ctx context.Context, clusterName string, complete bool, now []berth.Namespace) error {
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return border(err)
	}
	err = s.gated(ctx, c.ID, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(1, $1)", c.ID); err != nil {
			return fmt.Errorf("lock the inventory: %w", err)
		}
		before, err := namespaces(ctx, tx, statement("inventory_rows"), pgx.NamedArgs{"cluster_id": c.ID})
		if err != nil {
			return err
		}
		current, err := findCluster(ctx, tx, clusterName)
		if err != nil {
			return err
		}
		changes := inventoryChanges(before, now, complete)
		if len(changes.names) == 0 && (current.Synced || !complete) {
			return nil
		}
		return applyInventory(ctx, tx, current, complete, changes)
	})
	if err != nil {
		return fmt.Errorf("change the namespaces of cluster %s: %w", clusterName, err)
	}
	return nil
}

// changes are namespaces that differ from their rows.
type changes struct {
	names             []string
	present, excluded []bool
	// relabelled are those that the exclude label came to or left.
	relabelled []string
}

// String names the first of the changed namespaces.
func (c changes) String() string {
	const most = 10
	var text strings.Builder
	fmt.Fprintf(&text, "%d changed", len(c.names))
	for i, name := range c.names[:min(most, len(c.names))] {
		state := "present"
		switch {
		case !c.present[i]:
			state = "gone"
		case c.excluded[i]:
			state = "excluded"
		}
		fmt.Fprintf(&text, "; %s %s", name, state)
	}
	if len(c.names) > most {
		text.WriteString("; …")
	}
	return text.String()
}

func (c *changes) add(name string, present, excluded, relabelled bool) {
	c.names = append(c.names, name)
	c.present = append(c.present, present)
	c.excluded = append(c.excluded, excluded)
	if relabelled {
		c.relabelled = append(c.relabelled, name)
	}
}

func inventoryChanges(before []namespaceRow, now []berth.Namespace, complete bool) changes {
	c := changes{relabelled: []string{}}
	rows := make(map[string]namespaceRow, len(before))
	for _, row := range before {
		rows[row.Name] = row
	}
	named := make(map[string]bool, len(now))
	// Of several that say something about one namespace, the last is right.
	for _, n := range slices.Backward(now) {
		if named[n.Name] {
			continue
		}
		named[n.Name] = true
		row, known := rows[n.Name]
		excluded := n.Exists && n.Excluded
		if !known && !n.Exists || known && row.Present == n.Exists && row.Excluded == excluded {
			continue
		}
		c.add(n.Name, n.Exists, excluded, row.Excluded != excluded)
	}
	if complete {
		for _, row := range before {
			if row.Present && !named[row.Name] {
				c.add(row.Name, false, false, row.Excluded)
			}
		}
	}
	return c
}

func applyInventory(ctx context.Context, tx pgx.Tx, c cluster, complete bool, changed changes) error {
	wasSynced := c.Synced
	if len(changed.names) > 0 {
		if _, err := tx.Exec(ctx, statement("change_inventory"), pgx.NamedArgs{
			"cluster_id": c.ID, "names": changed.names, "present": changed.present, "excluded": changed.excluded,
		}); err != nil {
			return fmt.Errorf("write the namespaces: %w", err)
		}
	}
	var notified *string
	err := tx.QueryRow(ctx, statement("bump_inventory"), pgx.NamedArgs{
		"cluster_id": c.ID, "complete": complete, "message": changed.String(),
	}).Scan(&c.InventoryVersion, &c.Synced, &notified)
	if err != nil {
		return fmt.Errorf("move the inventory's version: %w", err)
	}
	rows, err := tx.Query(ctx, statement("concerned"), pgx.NamedArgs{"cluster_id": c.ID, "relabelled": changed.relabelled})
	if err != nil {
		return fmt.Errorf("find the claims that change: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[queuedSpec])
	if err != nil {
		return fmt.Errorf("find the claims that change: %w", err)
	}
	concerned, unconcerned := found, []int64(nil)
	if wasSynced {
		if concerned, unconcerned, err = changed.concern(found); err != nil {
			return err
		}
	}
	if len(unconcerned) > 0 {
		if _, err := tx.Exec(ctx, statement("unconcerned"), pgx.NamedArgs{"inventory_version": c.InventoryVersion, "seqs": unconcerned}); err != nil {
			return fmt.Errorf("note that %d claims stay: %w", len(unconcerned), err)
		}
	}
	return reclaim(ctx, tx, c, concerned)
}

// concern tells the backups whose claims the changes may change from those
// whose claims stay: so that a namespace that comes costs what matches it, not
// every pattern in the queue times every namespace of the cluster.
func (c changes) concern(backups []queuedSpec) (concerned []queuedSpec, unconcerned []int64, err error) {
	alike := map[string]bool{}
	for _, b := range backups {
		concerns, done := alike[string(b.Spec)]
		if !done {
			scope, err := b.scope()
			if err != nil {
				return nil, nil, err
			}
			concerns = slices.ContainsFunc(c.names, func(name string) bool {
				contains := scope.Contains(name)
				if scope.Kind == berth.ScopeEverythingBut {
					return !contains || slices.Contains(c.relabelled, name)
				}
				return contains
			})
			alike[string(b.Spec)] = concerns
		}
		if concerns {
			concerned = append(concerned, b)
		} else {
			unconcerned = append(unconcerned, b.Seq)
		}
	}
	return concerned, unconcerned, nil
}
