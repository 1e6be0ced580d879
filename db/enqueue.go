package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// Enqueue validates a request and puts it into its cluster's queue. Errors:
// CodeValidationFailed with every field at once, CodeNameTaken, CodeQueueFull,
// CodeNotReady.
func (s *Store) Enqueue(ctx context.Context, r berth.Request) (berth.Backup, error) {
	if r.Cluster == "" {
		r.Cluster = berth.DefaultCluster
	}
	problems := r.Validate()
	id, err := uuid.NewV7()
	if err != nil {
		return berth.Backup{}, fmt.Errorf("make an id: %w", err)
	}
	generated := r.Name == ""
	if generated {
		r.Name = berth.GenerateName(time.Now(), id)
	}
	if len(problems) > 0 {
		return berth.Backup{}, s.snapshot(ctx, func(tx *transaction) error { return refusedOf(ctx, tx, r, problems) })
	}
	err = s.enqueue(ctx, r.Cluster, []asked{{ID: id, Request: r}})
	switch {
	case violates(err, constraintName) && generated:
		r.Name = ""
		return s.Enqueue(ctx, r)
	case violates(err, constraintName):
		return berth.Backup{}, s.nameIsTaken(ctx, r)
	case berth.CodeOf(err) == berth.CodeQueueFull && !generated:
		// Who asks again after a lost answer is told of its backup, not of the cap.
		taken := s.nameIsTaken(ctx, r)
		if e, is := errors.AsType[*berth.Error](taken); is && e.ExistingID != "" {
			return berth.Backup{}, taken
		}
		return berth.Backup{}, err
	case err != nil:
		return berth.Backup{}, err
	}
	return s.backupWhere(ctx, "b.id = @id", pgx.NamedArgs{"id": id}, foretoldAtOnce)
}

// foretoldAtOnce is up to which place the answer to a request has a predicted
// start; deeper ones are told to whoever asks.
const foretoldAtOnce = 100

func nameTaken(r berth.Request) *berth.Error {
	return berth.Errorf(berth.CodeNameTaken, "cluster %q has a backup named %q already", r.Cluster, r.Name)
}

func (s *Store) nameIsTaken(ctx context.Context, r berth.Request) error {
	taken := nameTaken(r)
	existing, err := s.backupWhere(ctx, "b.cluster = @cluster AND b.name = @name", pgx.NamedArgs{"cluster": r.Cluster, "name": r.Name}, 0)
	if err != nil && berth.CodeOf(err) != berth.CodeNotFound {
		return err
	}
	if err == nil {
		taken.ExistingID = existing.ID.String()
	}
	return taken
}

// EnqueueMany puts many requests into one cluster's queue, in their order and in
// one transaction: all of them or none. The requests are valid and have names.
// Errors: CodeNameTaken, CodeQueueFull, CodeNotReady, and CodeValidationFailed for
// the first whose storage location does not exist or cannot be written to.
func (s *Store) EnqueueMany(ctx context.Context, clusterName string, requests []berth.Request) ([]uuid.UUID, error) {
	ids, all := make([]uuid.UUID, len(requests)), make([]asked, len(requests))
	for i, r := range requests {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("make an id: %w", err)
		}
		ids[i], all[i] = id, asked{ID: id, Request: r}
	}
	err := s.enqueue(ctx, clusterName, all)
	if violates(err, constraintName) {
		return nil, berth.Errorf(berth.CodeNameTaken, "cluster %q has a backup of one of these names already", clusterName)
	}
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// asked is a request with the id that its backup gets.
type asked struct {
	ID uuid.UUID
	berth.Request
}

// newBackup is a row as enqueue.sql inserts it.
type newBackup struct {
	N             int               `json:"n"`
	ID            uuid.UUID         `json:"id"`
	Name          string            `json:"name"`
	Labels        map[string]string `json:"labels"`
	Annotations   map[string]string `json:"annotations"`
	Spec          berth.Spec        `json:"spec"`
	Location      string            `json:"location"`
	KeepSeconds   float64           `json:"keep_seconds"`
	Priority      int               `json:"priority"`
	NotBefore     *time.Time        `json:"not_before"`
	StartDeadline *time.Time        `json:"start_deadline"`
	Scope         berth.ScopeKind   `json:"scope"`
	HasPattern    bool              `json:"has_pattern"`
	Resolved      bool              `json:"resolved"`
	NamespaceIDs  []int32           `json:"namespace_ids"`
	LeftOut       []int32           `json:"left_out"`
}

// enqueue puts requests into a cluster's queue. Where the connection breaks nobody
// knows whether it committed: it is tried again with the same ids, so that each
// backup is there once.
func (s *Store) enqueue(ctx context.Context, clusterName string, all []asked) error {
	broke := false
	err := unbroken(func() error {
		err := s.ungated(ctx, func(tx *transaction) error { return enqueue(ctx, tx, clusterName, all) })
		broke = broke || broken(err)
		return err
	})
	if err == nil || !broke {
		return err
	}
	there := s.snapshot(ctx, func(tx *transaction) error {
		_, err := findPlace(ctx, tx, all[0].ID)
		return err
	})
	if there == nil {
		return nil
	}
	return err
}

// enqueue resolves the scopes, inserts the backups and commits, in one READ
// COMMITTED transaction. It takes no gate and neither locks nor writes the cluster's row.
func enqueue(ctx context.Context, tx *transaction, clusterName string, all []asked) error {
	c, err := writable(ctx, tx, clusterName, all)
	if err != nil {
		return err
	}
	if err := leaveRoom(ctx, tx, c, len(all)); err != nil {
		return err
	}
	scopes := make([]berth.Scope, len(all))
	for i := range all {
		all[i].Spec = all[i].Spec.WithDefaults()
		scopes[i], _ = berth.ScopeOf(all[i].Spec.IncludedNamespaces, all[i].Spec.ExcludedNamespaces)
	}
	c, claims, err := claimInto(ctx, tx, c, scopes)
	if err != nil {
		return err
	}
	rows := make([]newBackup, len(all))
	for i, r := range all {
		rows[i] = newBackup{
			N: i, ID: r.ID, Name: r.Name, Labels: orEmpty(r.Labels), Annotations: orEmpty(r.Annotations), Spec: r.Spec,
			Location: r.Spec.Location(), KeepSeconds: r.Spec.KeepFor().Seconds(),
			Priority: r.Priority, NotBefore: r.NotBefore, StartDeadline: r.StartDeadline,
			Scope: scopes[i].Kind, HasPattern: scopes[i].HasPattern(), Resolved: claims[i].Resolved,
			NamespaceIDs: claims[i].NamespaceIDs, LeftOut: claims[i].LeftOut,
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("encode the backups: %w", err)
	}
	var inserted, notified int
	err = tx.last(ctx, statement("enqueue"), pgx.NamedArgs{
		"backups": string(text), "cluster_id": c.ID, "max_attempts": berth.DefaultMaxAttempts, "inventory_version": c.InventoryVersion,
	}, &inserted, &notified)
	if err != nil {
		return fmt.Errorf("enqueue %d backups: %w", len(all), err)
	}
	return nil
}

// claimInto resolves scopes that are about to enter a cluster's queue, and gives
// the cluster as it is behind the inventory's lock, not as it was before it.
//
// A namespace that appears now waits until this transaction has ended, and then
// amends its claims; or it came first, and is seen here.
func claimInto(ctx context.Context, tx *transaction, c cluster, scopes []berth.Scope) (cluster, []claim, error) {
	wanted := wantedOf(scopes)
	var known []namespaceRow
	batch := &pgx.Batch{}
	batch.Queue("SELECT pg_advisory_xact_lock_shared(1, $1)", c.ID)
	if len(wanted.names) > 0 {
		batch.Queue(statement("name_namespaces"), pgx.NamedArgs{"cluster_id": c.ID, "names": wanted.names})
	}
	batch.Queue(statement("cluster"), pgx.NamedArgs{"name": c.Name}).Query(func(rows pgx.Rows) (err error) {
		c, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[cluster])
		return err
	})
	batch.Queue(statement("known_namespaces"), wanted.args(c)).Query(func(rows pgx.Rows) (err error) {
		known, err = pgx.CollectRows(rows, pgx.RowToStructByName[namespaceRow])
		return err
	})
	if err := tx.together(ctx, batch); err != nil {
		return c, nil, fmt.Errorf("resolve the namespaces: %w", err)
	}
	d := newDictionary(known, c.Synced)
	claims := make([]claim, len(scopes))
	for i, scope := range scopes {
		claims[i] = d.claim(scope)
	}
	return c, claims, nil
}

// leaveRoom refuses more backups than the cluster's cap allows to wait. While a
// cluster has one, those who ask for more take turns, so that it is exact.
func leaveRoom(ctx context.Context, tx *transaction, c cluster, more int) error {
	if c.MaxQueued == nil {
		return nil
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(4, $1)", c.ID); err != nil {
		return fmt.Errorf("take a turn at the queue of cluster %s: %w", c.Name, err)
	}
	return checkRoom(ctx, tx, c, more)
}

// checkRoom counts what waits against the cluster's cap.
func checkRoom(ctx context.Context, q querier, c cluster, more int) error {
	if c.MaxQueued == nil {
		return nil
	}
	var waiting int
	if err := q.QueryRow(ctx, statement("count_waiting"), pgx.NamedArgs{"cluster_id": c.ID, "cap": *c.MaxQueued}).Scan(&waiting); err != nil {
		return fmt.Errorf("count the queue of cluster %s: %w", c.Name, err)
	}
	if waiting+more > *c.MaxQueued {
		return berth.Errorf(berth.CodeQueueFull, "the queue of cluster %q has no room for %d more: maxQueued is %d", c.Name, more, *c.MaxQueued)
	}
	return nil
}

func invalid(problems []berth.FieldError) error {
	return &berth.Error{Code: berth.CodeValidationFailed, Detail: "the backup cannot be taken as asked for", Fields: problems}
}

// writable finds the cluster and refuses the first request whose cluster or
// location is not there or cannot be written to.
func writable(ctx context.Context, q querier, clusterName string, all []asked) (cluster, error) {
	var c cluster
	checked := map[string]bool{}
	for _, r := range all {
		r.Cluster = clusterName
		// A long name is refused in some locations: those are looked at for each.
		if checked[r.Spec.Location()] && len(r.Name) <= maxNameInFolder {
			continue
		}
		found, problems, err := rowProblems(ctx, q, r.Request, nil)
		if err != nil {
			return c, err
		}
		if len(problems) > 0 {
			return c, invalid(problems)
		}
		c, checked[r.Spec.Location()] = found, true
	}
	return c, nil
}

// RowProblems lists what rows say is wrong with a request: a cluster or a
// storage location that does not exist or cannot be written to. Enqueue finds
// them too; this is for a request that is refused already.
func (s *Store) RowProblems(ctx context.Context, r berth.Request) ([]berth.FieldError, error) {
	if r.Cluster == "" {
		r.Cluster = berth.DefaultCluster
	}
	_, problems, err := rowProblems(ctx, s.pool, r, r.Validate())
	return problems, border(err)
}

// rowProblems finds the request's cluster and what rows say is wrong. A name
// that is none, by what is known to be wrong already, is not looked up.
func rowProblems(ctx context.Context, q querier, r berth.Request, known []berth.FieldError) (c cluster, problems []berth.FieldError, err error) {
	faulty := func(pointer string) bool {
		return slices.ContainsFunc(known, func(p berth.FieldError) bool { return p.Pointer == pointer })
	}
	if faulty("/cluster") {
		return c, nil, nil
	}
	c, err = findCluster(ctx, q, r.Cluster)
	if errors.Is(err, errNoCluster) {
		return c, []berth.FieldError{{Pointer: "/cluster", Code: "not-found", Detail: fmt.Sprintf("there is no cluster %q", r.Cluster)}}, nil
	}
	if err != nil || faulty("/spec/storageLocation") {
		return c, nil, err
	}
	problems, err = locationProblem(ctx, q, c.ID, r.Spec.Location(), r.Name)
	return c, problems, err
}

// maxNameInFolder leaves room for the longest name of an artefact,
// <name>-podvolumebackups.json.gz, and of the file that it is written as first,
// within the 255 bytes that file systems take.
const maxNameInFolder = 200

func locationProblem(ctx context.Context, q querier, clusterID int32, name, backup string) ([]berth.FieldError, error) {
	location, err := findLocation(ctx, q, clusterID, name)
	switch {
	case berth.CodeOf(err) == berth.CodeNotFound:
		return []berth.FieldError{{Pointer: "/spec/storageLocation", Code: "not-found", Detail: fmt.Sprintf("there is no storage location %q", name)}}, nil
	case err != nil:
		return nil, err
	case location.ReadOnly:
		return []berth.FieldError{{Pointer: "/spec/storageLocation", Code: "read-only", Detail: fmt.Sprintf("the storage location %q is read-only", name)}}, nil
	case strings.HasPrefix(location.URL, "file:") && len(backup) > maxNameInFolder:
		return []berth.FieldError{{Pointer: "/name", Code: "invalid", Detail: fmt.Sprintf(
			"the storage location %q is a folder, where a backup's name has at most %d characters", name, maxNameInFolder)}}, nil
	}
	return nil, nil
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
