package db

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// claim is what a scope comes to in the dictionary of namespaces.
type claim struct {
	namespaceIDs []int32
	leftOut      []int32 // named, and kept out by the exclude label
	resolved     bool
}

type namespaceRow struct {
	ID       int32
	Name     string
	Present  bool
	Excluded bool
}

// resolve applies a scope to the rows of its cluster's namespaces. Its literals
// are in the dictionary already.
func resolve(ctx context.Context, tx pgx.Tx, c cluster, scope berth.Scope) (claim, error) {
	// An everything-but needs every namespace, since the exclude label makes a hole.
	everyone := scope.HasPattern() || scope.Kind == berth.ScopeEverythingBut
	known, err := namespaces(ctx, tx, statement("known_namespaces"), pgx.NamedArgs{
		"cluster_id": c.ID, "everyone": everyone, "names": scope.Literals(),
	})
	if err != nil {
		return claim{}, err
	}
	return claimOf(scope, known, c.Synced), nil
}

func claimOf(scope berth.Scope, known []namespaceRow, synced bool) claim {
	ids := make(map[string]int32, len(known))
	inventory := make([]berth.Namespace, len(known))
	for i, n := range known {
		ids[n.Name] = n.ID
		inventory[i] = berth.Namespace{Name: n.Name, Exists: n.Present, Excluded: n.Excluded}
	}
	resolved := scope.Resolve(inventory, synced)
	claimed := claim{resolved: !resolved.Unresolvable, namespaceIDs: []int32{}, leftOut: []int32{}}
	for _, name := range resolved.Names {
		claimed.namespaceIDs = append(claimed.namespaceIDs, ids[name])
	}
	for _, name := range resolved.Excluded {
		claimed.leftOut = append(claimed.leftOut, ids[name])
	}
	return claimed
}

func namespaces(ctx context.Context, q querier, sql string, args pgx.NamedArgs) ([]namespaceRow, error) {
	rows, err := q.Query(ctx, sql, args)
	if err != nil {
		return nil, fmt.Errorf("read the namespaces: %w", err)
	}
	known, err := pgx.CollectRows(rows, pgx.RowToStructByName[namespaceRow])
	if err != nil {
		return nil, fmt.Errorf("read the namespaces: %w", err)
	}
	return known, nil
}

// queuedSpec is a queued backup whose claim may have to change.
type queuedSpec struct {
	Seq              int64
	Spec             json.RawMessage
	InventoryVersion int64
}

// reclaim gives each of these queued backups the claim that its scope has in
// the inventory as it is now. The caller holds the gate.
func reclaim(ctx context.Context, tx pgx.Tx, c cluster, backups []queuedSpec) error {
	if len(backups) == 0 {
		return nil
	}
	known, err := namespaces(ctx, tx, statement("inventory_rows"), pgx.NamedArgs{"cluster_id": c.ID})
	if err != nil {
		return err
	}
	for _, b := range backups {
		var spec berth.Spec
		if err := json.Unmarshal(b.Spec, &spec); err != nil {
			return fmt.Errorf("read the spec of backup %d: %w", b.Seq, err)
		}
		scope, problems := berth.ScopeOf(spec.IncludedNamespaces, spec.ExcludedNamespaces)
		if problems != nil {
			return fmt.Errorf("read the spec of backup %d: %s", b.Seq, problems[0].Detail)
		}
		claimed := claimOf(scope, known, c.Synced)
		_, err := tx.Exec(ctx, statement("reclaim"), pgx.NamedArgs{
			"seq": b.Seq, "inventory_version": c.InventoryVersion, "resolved": claimed.resolved, "namespace_ids": claimed.namespaceIDs, "left_out": claimed.leftOut,
		})
		if err != nil {
			return fmt.Errorf("amend the claim of backup %d: %w", b.Seq, err)
		}
	}
	return nil
}
