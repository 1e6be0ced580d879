package db

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// claim is what a scope comes to in the dictionary of namespaces.
type claim struct {
	Seq          int64   `json:"seq"`
	NamespaceIDs []int32 `json:"namespace_ids"`
	LeftOut      []int32 `json:"left_out"` // named, and kept out by the exclude label
	Resolved     bool    `json:"resolved"`
}

type namespaceRow struct {
	ID       int32
	Name     string
	Present  bool
	Excluded bool
}

// dictionary is what rows say of a cluster's namespaces.
type dictionary struct {
	ids       map[string]int32
	rows      map[string]int // into inventory
	inventory []berth.Namespace
	synced    bool
}

func newDictionary(rows []namespaceRow, synced bool) dictionary {
	d := dictionary{
		ids: make(map[string]int32, len(rows)), rows: make(map[string]int, len(rows)),
		inventory: make([]berth.Namespace, len(rows)), synced: synced,
	}
	for i, n := range rows {
		d.ids[n.Name], d.rows[n.Name] = n.ID, i
		d.inventory[i] = berth.Namespace{Name: n.Name, Exists: n.Present, Excluded: n.Excluded}
	}
	return d
}

func (d dictionary) claim(scope berth.Scope) claim {
	resolved := scope.Resolve(d.inventory, d.synced)
	return claim{Resolved: !resolved.Unresolvable, NamespaceIDs: d.numbers(resolved.Names), LeftOut: d.numbers(resolved.Excluded)}
}

func (d dictionary) numbers(names []string) []int32 {
	ids := make([]int32, len(names))
	for i, name := range names {
		ids[i] = d.ids[name]
	}
	return ids
}

// wanted is what is needed of a cluster's namespaces.
type wanted struct {
	// names are needed whether the cluster has them or not.
	names []string
	// everyone says that all that the cluster has are needed.
	everyone bool
}

// wantedOf is what scopes need: their literals, sorted, each once; and everyone
// where there is a pattern, or an everything-but, since the exclude label makes a
// hole.
func wantedOf(scopes []berth.Scope) wanted {
	var w wanted
	for _, scope := range scopes {
		w.names = append(w.names, scope.Literals()...)
		w.everyone = w.everyone || scope.HasPattern() || scope.Kind == berth.ScopeEverythingBut
	}
	slices.Sort(w.names)
	w.names = slices.Compact(w.names)
	return w
}

func (w wanted) args(c cluster) pgx.NamedArgs {
	return pgx.NamedArgs{"cluster_id": c.ID, "everyone": w.everyone, "names": w.names}
}

// claims applies scopes to a dictionary that has all their literals, and where
// everyone is looked at, every namespace.
func (d dictionary) claims(scopes []berth.Scope, everyone bool) []claim {
	claims := make([]claim, len(scopes))
	for i, scope := range scopes {
		if everyone {
			claims[i] = d.claim(scope)
		} else {
			claims[i] = d.of(scope.Literals()).claim(scope)
		}
	}
	return claims
}

// of is the part of a dictionary that has these names: a scope of literals needs
// no other, however many there are.
func (d dictionary) of(names []string) dictionary {
	part := dictionary{ids: d.ids, synced: d.synced}
	for _, name := range names {
		if i, known := d.rows[name]; known {
			part.inventory = append(part.inventory, d.inventory[i])
		}
	}
	return part
}

func namespaces(ctx context.Context, q querier, c cluster, w wanted) ([]namespaceRow, error) {
	rows, err := q.Query(ctx, statement("known_namespaces"), w.args(c))
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
	Seq  int64           `json:"seq"`
	Spec json.RawMessage `json:"spec"`
}

func (q queuedSpec) scope() (berth.Scope, error) {
	var spec berth.Spec
	if err := json.Unmarshal(q.Spec, &spec); err != nil {
		return berth.Scope{}, fmt.Errorf("read the spec of backup %d: %w", q.Seq, err)
	}
	scope, problems := berth.ScopeOf(spec.IncludedNamespaces, spec.ExcludedNamespaces)
	if problems != nil {
		return berth.Scope{}, fmt.Errorf("read the spec of backup %d: %s", q.Seq, problems[0].Detail)
	}
	return scope, nil
}

// reclaim gives each of these queued backups the claim that its scope has in
// the inventory as it is now, all in one statement. The caller holds the gate.
func reclaim(ctx context.Context, tx *transaction, c cluster, backups []queuedSpec) error {
	if len(backups) == 0 {
		return nil
	}
	// The backups of a schedule ask alike: what one comes to, all come to.
	var scopes []berth.Scope
	alike := map[string]int{} // into scopes
	for _, b := range backups {
		if _, known := alike[string(b.Spec)]; known {
			continue
		}
		scope, err := b.scope()
		if err != nil {
			return err
		}
		alike[string(b.Spec)] = len(scopes)
		scopes = append(scopes, scope)
	}
	wanted := wantedOf(scopes)
	known, err := namespaces(ctx, tx, c, wanted)
	if err != nil {
		return err
	}
	resolved := newDictionary(known, c.Synced).claims(scopes, wanted.everyone)
	claims := make([]claim, len(backups))
	for i, b := range backups {
		claims[i] = resolved[alike[string(b.Spec)]]
		claims[i].Seq = b.Seq
	}
	text, err := json.Marshal(claims)
	if err != nil {
		return fmt.Errorf("encode claims: %w", err)
	}
	if _, err := tx.Exec(ctx, statement("reclaim"), pgx.NamedArgs{"inventory_version": c.InventoryVersion, "claims": text}); err != nil {
		return fmt.Errorf("amend %d claims: %w", len(claims), err)
	}
	return nil
}
