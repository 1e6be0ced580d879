package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// SyncNamespaces writes the complete list of a cluster's namespaces: those that
// it does not name are gone. From the first time on, patterns can be resolved.
// A list that changes nothing writes nothing, and takes no gate.
// What differs is told before the gate, and is written as the list has it: of two
// lists that are written at once, the last to write is right.
func (s *Store) SyncNamespaces(ctx context.Context, clusterName string, all []berth.Namespace) error {
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return border(err)
	}
	before, err := namespaces(ctx, s.pool, c, wanted{everyone: true})
	if err != nil {
		return border(err)
	}
	differing := inventoryChanges(before, all, true).namespaces()
	return s.changeInventory(ctx, c, differing, !c.Synced)
}

// ChangeNamespaces writes namespaces that appeared, went (Exists false) or
// whose exclude label changed.
func (s *Store) ChangeNamespaces(ctx context.Context, clusterName string, changed []berth.Namespace) error {
	c, err := findCluster(ctx, s.pool, clusterName)
	if err != nil {
		return border(err)
	}
	return s.changeInventory(ctx, c, changed, false)
}

// writtenAtOnce is how many namespaces change in one transaction: more would hold
// the gate for longer than a person notices.
const writtenAtOnce = 512

// changeInventory writes the namespaces, some in a transaction, and says of the
// first list that it is whole only when all of it is written. Then the claims of
// every queued backup that this concerns are amended, in further transactions
// where they are many: none is admitted before its claim is amended.
func (s *Store) changeInventory(ctx context.Context, c cluster, now []berth.Namespace, completes bool) error {
	if len(now) == 0 && !completes {
		return nil
	}
	for len(now) > writtenAtOnce {
		if err := s.writeNamespaces(ctx, c, now[:writtenAtOnce], false); err != nil {
			return err
		}
		now = now[writtenAtOnce:]
	}
	if err := s.writeNamespaces(ctx, c, now, completes); err != nil {
		return err
	}
	if err := s.amendAll(ctx, c); err != nil {
		return fmt.Errorf("amend the claims of cluster %s: %w", c.Name, err)
	}
	return nil
}

// writeNamespaces takes the gate, then the inventory's exclusive lock, and writes
// what differs from the rows with a new inventory version.
func (s *Store) writeNamespaces(ctx context.Context, c cluster, now []berth.Namespace, completes bool) error {
	err := s.gated(ctx, c.ID, func(tx *transaction) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(1, $1)", c.ID); err != nil {
			return fmt.Errorf("lock the inventory: %w", err)
		}
		before, err := namespaces(ctx, tx, c, rowsOf(now))
		if err != nil {
			return err
		}
		current, err := findCluster(ctx, tx, c.Name)
		if err != nil {
			return err
		}
		changed := inventoryChanges(before, now, false)
		if len(changed.names) == 0 && (current.Synced || !completes) {
			return nil
		}
		return applyInventory(ctx, tx, current, completes, changed)
	})
	if err != nil {
		return fmt.Errorf("change the namespaces of cluster %s: %w", c.Name, err)
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

// namespaces are what the rows are to be.
func (c changes) namespaces() []berth.Namespace {
	all := make([]berth.Namespace, len(c.names))
	for i, name := range c.names {
		all[i] = berth.Namespace{Name: name, Exists: c.present[i], Excluded: c.excluded[i]}
	}
	return all
}

// rowsOf are the rows of these namespaces.
func rowsOf(all []berth.Namespace) wanted {
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = n.Name
	}
	return wanted{names: names}
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
		row := rows[n.Name]
		excluded := n.Exists && n.Excluded
		if row.Present == n.Exists && row.Excluded == excluded {
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

// applyInventory writes the namespaces and begins to amend the queue's claims.
func applyInventory(ctx context.Context, tx *transaction, c cluster, complete bool, changed changes) error {
	if len(changed.names) > 0 {
		if _, err := tx.Exec(ctx, statement("change_inventory"), pgx.NamedArgs{
			"cluster_id": c.ID, "names": changed.names, "present": changed.present, "excluded": changed.excluded,
		}); err != nil {
			return fmt.Errorf("write the namespaces: %w", err)
		}
	}
	var version int64
	var synced bool
	var notified *string
	err := tx.QueryRow(ctx, statement("bump_inventory"), pgx.NamedArgs{
		"cluster_id": c.ID, "complete": complete, "message": changed.String(),
	}).Scan(&version, &synced, &notified)
	if err != nil {
		return fmt.Errorf("move the inventory's version: %w", err)
	}
	names := changed.names
	if synced != c.Synced {
		names = nil // every pattern can be resolved from now on
	}
	if _, err := tx.Exec(ctx, statement("begin_amendment"), pgx.NamedArgs{"cluster_id": c.ID, "names": names, "relabelled": changed.relabelled}); err != nil {
		return fmt.Errorf("begin to amend the claims: %w", err)
	}
	_, err = amend(ctx, tx, c.Name)
	return err
}

// One transaction amends the claims of at most amendBudget backups, and stops when
// they take in mostAmended namespaces: more would hold the gate for longer than a
// person notices.
const (
	amendBudget = 64
	mostAmended = 5000
)

// amendAll works a change of the namespaces into the claims of all of the queue,
// a stretch in a transaction. Until a backup's turn has come it is not admitted:
// so it makes no difference who goes on when this process ends, which is whoever
// dequeues next.
func (s *Store) amendAll(ctx context.Context, c cluster) error {
	for more := true; more; {
		err := s.gated(ctx, c.ID, func(tx *transaction) (err error) {
			more, err = amend(ctx, tx, c.Name)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// amend works the change into the next stretch of the queue, and says whether
// there is more. The caller holds the gate.
func amend(ctx context.Context, tx *transaction, clusterName string) (more bool, err error) {
	c, err := findCluster(ctx, tx, clusterName)
	if err != nil {
		return false, err
	}
	var text string
	var changed amendment
	var upTo *int64
	err = tx.QueryRow(ctx, statement("concerned"), pgx.NamedArgs{"cluster_id": c.ID, "budget": amendBudget}).
		Scan(&text, &changed.names, &changed.relabelled, &upTo)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil // somebody else went to the end
	}
	if err != nil {
		return false, fmt.Errorf("find the claims that change: %w", err)
	}
	var found []queuedSpec
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return false, fmt.Errorf("find the claims that change: %w", err)
	}
	concerned, err := changed.concern(found)
	if err != nil {
		return false, err
	}
	known, err := changed.dictionary(ctx, tx, c, concerned)
	if err != nil {
		return false, err
	}
	claims, err := known.claimsOf(concerned, mostAmended)
	if err != nil {
		return false, err
	}
	if len(claims) < len(concerned) {
		upTo = &claims[len(claims)-1].Seq
	}
	if err := writeClaims(ctx, tx, c, known, claims); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, statement("move_amendment"), pgx.NamedArgs{"cluster_id": c.ID, "up_to": upTo}); err != nil {
		return false, fmt.Errorf("note how far the claims are amended: %w", err)
	}
	return upTo != nil, nil
}

// amendment is what of the namespaces changed; every one where names is nil.
type amendment struct {
	names, relabelled []string
}

// concern finds the backups whose claims the change may change: so that a
// namespace that comes costs what matches it, not every pattern in the queue.
func (a amendment) concern(backups []queuedSpec) (concerned []queuedSpec, err error) {
	if a.names == nil {
		return backups, nil
	}
	alike := map[string]bool{}
	for _, b := range backups {
		concerns, done := alike[string(b.Spec)]
		if !done {
			scope, err := b.scope()
			if err != nil {
				return nil, err
			}
			concerns = slices.ContainsFunc(a.names, func(name string) bool {
				contains := scope.Contains(name)
				if scope.Kind == berth.ScopeEverythingBut {
					return !contains || slices.Contains(a.relabelled, name)
				}
				return contains
			})
			alike[string(b.Spec)] = concerns
		}
		if concerns {
			concerned = append(concerned, b)
		}
	}
	return concerned, nil
}

// dictionary reads what the claims of these backups are told by: of the namespaces
// that changed alone, since what a name comes to depends on no other; all of them
// where it is not known which, or where a pattern is resolved for the first time.
func (a amendment) dictionary(ctx context.Context, tx *transaction, c cluster, backups []queuedSpec) (dictionary, error) {
	anew := func(b queuedSpec) bool { return c.Synced && !b.Resolved }
	if a.names == nil || slices.ContainsFunc(backups, anew) {
		return dictionaryOf(ctx, tx, c, backups)
	}
	known, err := namespaces(ctx, tx, c, wanted{names: a.names})
	if err != nil {
		return dictionary{}, err
	}
	d := newDictionary(known, c.Synced)
	d.part = true
	return d, nil
}
