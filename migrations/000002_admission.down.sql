DROP SCHEMA report CASCADE;
DROP VIEW backup_rows;
DROP FUNCTION worker_room(int, timestamptz);
DROP FUNCTION has_live_worker(int, timestamptz);
DROP INDEX leases_worker;
ALTER TABLE workers DROP renewed_at, DROP max_backups;
DROP FUNCTION is_reachable(clusters, timestamptz);
DROP FUNCTION is_paused(clusters, timestamptz);
DROP TABLE predictions;
ALTER TABLE departures DROP watcher, DROP order_key;
DROP TABLE amendments;
DROP TABLE relooks;
DROP INDEX backups_runs;
DROP INDEX backups_deadline;
DROP INDEX backups_due;
DROP INDEX backups_fresh;
UPDATE backups SET blocked_by = NULL WHERE phase = 'Queued' AND NOT evaluated;
CREATE INDEX backups_fresh ON backups (cluster_id, order_key, seq)
    WHERE phase = 'Queued' AND blocked_by IS NULL AND resolved AND NOT evaluated;
DROP INDEX backups_known;
CREATE INDEX backups_known ON backups (cluster_id, order_key, seq)
    WHERE phase = 'Queued' AND blocked_by IS NULL AND resolved AND evaluated;
DROP FUNCTION due_at(timestamptz, timestamptz);
DROP FUNCTION order_key_of(timestamptz, timestamptz, int);
ALTER TABLE events DROP detail;
ALTER TABLE backups
    DROP CONSTRAINT backups_back_off_while_new, DROP CONSTRAINT backups_new_claims_nothing,
    DROP needs_inventory, DROP cancel_requested_at, DROP first_ready_at, DROP retry_at, DROP start_deadline, DROP not_before, DROP priority;
ALTER TABLE storage_locations DROP reached_at, DROP checked_at, DROP message, DROP available;
ALTER TABLE clusters
    DROP CONSTRAINT clusters_pause, DROP reachable, DROP worker_changed_at, DROP has_worker, DROP seen_at, DROP paused_by, DROP pause_reason,
    DROP paused_until, DROP paused_since, DROP settings_version, DROP max_queued, DROP item_block_worker_count, DROP limited_at;
-- The namespaces that two claims share, by name, at most 100.
CREATE OR REPLACE FUNCTION shared_names(of_cluster int, a int8multirange, a_wide boolean, b int8multirange, b_wide boolean)
    RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN a_wide AND b_wide THEN
        (SELECT coalesce(array_agg(s.name), '{}') FROM (
            SELECT n.name FROM namespaces n
             WHERE n.cluster_id = of_cluster AND a @> claim_key(of_cluster, n.id) AND b @> claim_key(of_cluster, n.id)
             ORDER BY n.name LIMIT 100) s)
    ELSE (claim_names(a * b))[1:100] END
$$;

-- A queued backup's place, from 1.
CREATE OR REPLACE FUNCTION queue_position(of_seq bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT count(*) FROM backups b
      JOIN backups q ON q.cluster_id = b.cluster_id AND q.phase = 'Queued' AND (q.order_key, q.seq) <= (b.order_key, b.seq)
     WHERE b.seq = of_seq
$$;

-- How many active backups ahead of a queued one overlap it.
CREATE OR REPLACE FUNCTION overlapping_ahead(of_seq bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT count(*) FROM backups b CROSS JOIN LATERAL (
        -- Two scopes of some namespaces meet in a row of claims each.
        SELECT c.seq FROM claims mine
          JOIN claims c ON c.cluster_id = b.cluster_id AND c.namespace_id = mine.namespace_id
           AND (c.rank, c.order_key, c.seq) < (1::smallint, b.order_key, b.seq) AND c.seq <> b.seq
         WHERE mine.seq = b.seq AND NOT b.wide
        UNION
        SELECT w.seq FROM backups w
         WHERE NOT b.wide AND w.cluster_id = b.cluster_id AND w.wide
           AND w.phase IN ('Queued', 'ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')
           AND in_the_way(w, b)
        UNION ALL
        SELECT q.seq FROM backups q
         WHERE b.wide AND q.cluster_id = b.cluster_id AND q.phase = 'Queued'
           AND (q.order_key, q.seq) < (b.order_key, b.seq) AND q.claim && b.claim
        UNION ALL
        SELECT r.seq FROM backups r
         WHERE b.wide AND r.cluster_id = b.cluster_id AND r.slot IS NOT NULL AND r.claim && b.claim
    ) ahead
     WHERE b.seq = of_seq
$$;

-- Backups as readers see them, all but the place in the queue.
CREATE VIEW backup_rows AS
SELECT b.seq, b.id, b.cluster_id, c.name AS cluster, b.name, b.phase, b.reason, b.message,
       b.labels, b.annotations, b.spec, b.version, b.order_key,
       b.created_at, b.enqueued_at, b.ready_at, b.started_at, b.completed_at, b.expires_at,
       b.wide, b.contents, b.attempt, b.max_attempts, b.slot, b.worker,
       b.warnings, b.errors, b.validation_errors, b.failure_reason,
       CASE WHEN b.scope = 'some' AND b.resolved THEN claim_names(b.claim) ELSE '{}' END AS names,
       CASE WHEN b.scope = 'everything-but' AND b.resolved
            THEN claim_names(claim_everything(b.cluster_id) - b.claim) ELSE '{}' END AS except_names,
       p.items_backed_up, p.total_items, p.bytes, p.updated_at AS progress_at,
       w.id AS blocker_id, w.name AS blocker_name,
       coalesce(shared_names(b.cluster_id, b.claim, b.wide, w.claim, w.wide), '{}') AS blocker_namespaces,
       CASE WHEN b.phase <> 'Queued' THEN ''
            WHEN NOT EXISTS (SELECT FROM workers k WHERE k.cluster_id = b.cluster_id AND k.expires_at > statement_timestamp())
            THEN 'NoWorker'
            WHEN NOT b.resolved THEN 'ScopeUnresolvable'
            WHEN w.slot IS NOT NULL THEN 'RunningOverlap'
            WHEN w.seq IS NOT NULL THEN 'EarlierQueuedOverlap'
            WHEN (SELECT count(*) FROM backups r WHERE r.cluster_id = b.cluster_id AND r.slot IS NOT NULL) >= c.concurrent_backups
            THEN 'NoFreeSlot'
            ELSE 'Dispatch' END AS wait_reason,
       CASE WHEN w.seq = b.blocked_by THEN b.blocked_since END AS waiting_since,
       c.concurrent_backups
  FROM backups b
  JOIN clusters c ON c.id = b.cluster_id
  LEFT JOIN progress p ON p.seq = b.seq
  -- The stored witness while it is in the way, else the one that the rule finds now.
  LEFT JOIN LATERAL (
        SELECT s.seq FROM backups s WHERE s.seq = b.blocked_by AND in_the_way(s, b)
        ) stored ON b.phase = 'Queued'
  LEFT JOIN LATERAL (
        SELECT o.seq FROM overlapping_predecessor(b.cluster_id, b.seq, b.order_key, b.wide, b.claim) o
        ) found ON b.phase = 'Queued' AND stored.seq IS NULL
  LEFT JOIN backups w ON w.seq = coalesce(stored.seq, found.seq);
