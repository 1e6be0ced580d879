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
// CodeValidationFailed with every field at once, CodeNameTaken, CodeNotReady.
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
	err = s.ungated(ctx, func(tx pgx.Tx) error { return enqueue(ctx, tx, id, r, problems) })
	if e := postgresError(err); e != nil && e.Code == uniqueViolation && e.ConstraintName == constraintName {
		if generated {
			r.Name = ""
			return s.Enqueue(ctx, r)
		}
		return berth.Backup{}, s.nameTaken(ctx, r)
	}
	if err != nil {
		return berth.Backup{}, err
	}
	return s.Backup(ctx, id)
}

func (s *Store) nameTaken(ctx context.Context, r berth.Request) error {
	taken := berth.Errorf(berth.CodeNameTaken, "cluster %q has a backup named %q already", r.Cluster, r.Name)
	existing, err := s.backupWhere(ctx, "b.cluster = @cluster AND b.name = @name", pgx.NamedArgs{"cluster": r.Cluster, "name": r.Name})
	if err != nil && berth.CodeOf(err) != berth.CodeNotFound {
		return err
	}
	if err == nil {
		taken.ExistingID = existing.ID.String()
	}
	return taken
}

// enqueue resolves the scope and inserts the backup in one READ COMMITTED
// transaction. It takes no gate and neither locks nor writes the cluster's row.
func enqueue(ctx context.Context, tx pgx.Tx, id uuid.UUID, r berth.Request, problems []berth.FieldError) error {
	c, missing, err := rowProblems(ctx, tx, r, problems)
	if err != nil {
		return err
	}
	problems = append(problems, missing...)
	if len(problems) > 0 {
		return &berth.Error{Code: berth.CodeValidationFailed, Detail: "the backup cannot be taken as asked for", Fields: problems}
	}
	r.Spec = r.Spec.WithDefaults()
	scope, _ := berth.ScopeOf(r.Spec.IncludedNamespaces, r.Spec.ExcludedNamespaces)
	// A namespace that appears now waits until this backup is in the queue, and
	// then amends its claim; or it came first, and is seen below.
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock_shared(1, $1)", c.ID); err != nil {
		return fmt.Errorf("share the inventory of cluster %s: %w", r.Cluster, err)
	}
	if err := nameNamespaces(ctx, tx, c.ID, scope.Literals()); err != nil {
		return err
	}
	// The inventory as it is behind the lock, not as it was before it.
	if c, err = findCluster(ctx, tx, r.Cluster); err != nil {
		return err
	}
	claim, err := resolve(ctx, tx, c, scope)
	if err != nil {
		return err
	}
	spec, err := json.Marshal(r.Spec)
	if err != nil {
		return fmt.Errorf("encode the spec: %w", err)
	}
	_, err = tx.Exec(ctx, statement("enqueue"), pgx.NamedArgs{
		"id": id, "cluster_id": c.ID, "name": r.Name,
		"labels": orEmpty(r.Labels), "annotations": orEmpty(r.Annotations), "spec": spec,
		"location": r.Spec.Location(), "keep_for": r.Spec.KeepFor(), "max_attempts": berth.DefaultMaxAttempts,
		"scope": string(scope.Kind), "has_pattern": scope.HasPattern(),
		"resolved": claim.Resolved, "inventory_version": c.InventoryVersion, "namespace_ids": claim.NamespaceIDs, "left_out": claim.LeftOut,
	})
	if err != nil {
		return fmt.Errorf("enqueue backup %s: %w", r.Name, err)
	}
	return nil
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

func nameNamespaces(ctx context.Context, tx pgx.Tx, clusterID int32, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, statement("name_namespaces"), pgx.NamedArgs{"cluster_id": clusterID, "names": names}); err != nil {
		return fmt.Errorf("name the namespaces: %w", err)
	}
	return nil
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
