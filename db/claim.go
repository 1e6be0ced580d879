package db

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
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
	// part says that it tells of these namespaces alone: a scope's literals may be
	// others.
	part bool
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

// claim is what a scope comes to, in a dictionary that has what wantedOf it says.
func (d dictionary) claim(scope berth.Scope) claim {
	inventory := d.inventory
	if !d.part && !needsEveryone(scope) {
		inventory = d.of(scope.Literals())
	}
	resolved := scope.Resolve(inventory, d.synced)
	return claim{Resolved: !resolved.Unresolvable, NamespaceIDs: d.numbers(resolved.Names), LeftOut: d.numbers(resolved.Excluded)}
}

// of are the namespaces of these names: a scope of literals needs no other,
// however many there are.
func (d dictionary) of(names []string) []berth.Namespace {
	var some []berth.Namespace
	for _, name := range names {
		if i, known := d.rows[name]; known {
			some = append(some, d.inventory[i])
		}
	}
	return some
}

func (d dictionary) numbers(names []string) []int32 {
	ids := make([]int32, 0, len(names))
	for _, name := range names {
		if id, known := d.ids[name]; known || !d.part {
			ids = append(ids, id)
		}
	}
	return ids
}

// touched are the numbers of the namespaces that a dictionary in part tells of;
// nil where it tells of all.
func (d dictionary) touched() []int32 {
	if !d.part {
		return nil
	}
	return slices.AppendSeq(make([]int32, 0, len(d.ids)), maps.Values(d.ids))
}

// claimsOf tells what the first of these backups claim: so many as together take
// in most namespaces, and one at least.
func (d dictionary) claimsOf(backups []queuedSpec, most int) ([]claim, error) {
	var claims []claim
	// The backups of a schedule ask alike: what one comes to, all come to.
	alike := map[string]claim{}
	for total := 0; len(claims) < len(backups) && total < most; {
		b := backups[len(claims)]
		one, told := alike[string(b.Spec)]
		if !told {
			scope, err := b.scope()
			if err != nil {
				return nil, err
			}
			one = d.claim(scope)
			alike[string(b.Spec)] = one
		}
		one.Seq = b.Seq
		claims = append(claims, one)
		total += len(one.NamespaceIDs)
	}
	return claims, nil
}

// wanted is what is needed of a cluster's namespaces.
type wanted struct {
	// names are needed whether the cluster has them or not.
	names []string
	// everyone says that all that the cluster has are needed.
	everyone bool
}

// needsEveryone says that a scope may come to namespaces that it does not name: by
// a pattern, or as an everything-but, in which the exclude label makes a hole.
func needsEveryone(scope berth.Scope) bool {
	return scope.HasPattern() || scope.Kind == berth.ScopeEverythingBut
}

// wantedOf is what scopes need: their literals, sorted, each once, and everyone
// where one needs it.
func wantedOf(scopes []berth.Scope) wanted {
	var w wanted
	for _, scope := range scopes {
		w.names = append(w.names, scope.Literals()...)
		w.everyone = w.everyone || needsEveryone(scope)
	}
	slices.Sort(w.names)
	w.names = slices.Compact(w.names)
	return w
}

func (w wanted) args(c cluster) pgx.NamedArgs {
	return pgx.NamedArgs{"cluster_id": c.ID, "everyone": w.everyone, "names": w.names}
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
	// Resolved says that its claim was told when the namespaces were known.
	Resolved bool `json:"resolved" db:"-"`
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

// dictionaryOf reads what the scopes of these backups need.
func dictionaryOf(ctx context.Context, tx *transaction, c cluster, backups []queuedSpec) (dictionary, error) {
	var scopes []berth.Scope
	alike := map[string]bool{}
	for _, b := range backups {
		if alike[string(b.Spec)] {
			continue
		}
		alike[string(b.Spec)] = true
		scope, err := b.scope()
		if err != nil {
			return dictionary{}, err
		}
		scopes = append(scopes, scope)
	}
	known, err := namespaces(ctx, tx, c, wantedOf(scopes))
	if err != nil {
		return dictionary{}, err
	}
	return newDictionary(known, c.Synced), nil
}

// reclaim gives each of these queued backups the claim that its scope has in
// the inventory as it is now, all in one statement. The caller holds the gate.
func reclaim(ctx context.Context, tx *transaction, c cluster, backups []queuedSpec) error {
	known, err := dictionaryOf(ctx, tx, c, backups)
	if err != nil {
		return err
	}
	claims, err := known.claimsOf(backups, math.MaxInt)
	if err != nil {
		return err
	}
	return writeClaims(ctx, tx, c, known, claims)
}

// writeClaims gives queued backups these claims. The caller holds the gate.
func writeClaims(ctx context.Context, tx *transaction, c cluster, known dictionary, claims []claim) error {
	if len(claims) == 0 {
		return nil
	}
	text, err := json.Marshal(claims)
	if err != nil {
		return fmt.Errorf("encode claims: %w", err)
	}
	if _, err := tx.Exec(ctx, statement("reclaim"), pgx.NamedArgs{
		"cluster_id": c.ID, "inventory_version": c.InventoryVersion, "touched": known.touched(), "claims": text,
	}); err != nil {
		return fmt.Errorf("amend %d claims: %w", len(claims), err)
	}
	return nil
}
