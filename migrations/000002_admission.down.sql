-- Nobody admits, enqueues or changes a queue meanwhile.
LOCK TABLE dispatch_gate_0, dispatch_gate_1, dispatch_gate_2, dispatch_gate_3,
    dispatch_gate_4, dispatch_gate_5, dispatch_gate_6, dispatch_gate_7,
    dispatch_gate_8, dispatch_gate_9, dispatch_gate_10, dispatch_gate_11,
    dispatch_gate_12, dispatch_gate_13, dispatch_gate_14, dispatch_gate_15 IN EXCLUSIVE MODE;
LOCK TABLE clusters, backups IN ACCESS EXCLUSIVE MODE;

-- What the older schema cannot hold, and would let run at the wrong time or never,
-- is refused.
DO $$
DECLARE
    kinds    text;
    remedies text;
BEGIN
    SELECT string_agg(format('%s (%s)', k.kind, k.found), ', ' ORDER BY k.n), string_agg(k.remedy, '; ' ORDER BY k.n)
      INTO kinds, remedies
      FROM (VALUES
           -- Nothing would ever put them into the queue.
           (1, 'backups that wait for their notBefore',
            (SELECT count(*) FROM backups WHERE phase = 'New' AND retry_at IS NULL),
            'cancel those with a notBefore, take it away, or wait until they are Queued'),
           (2, 'backups in back-off',
            (SELECT count(*) FROM backups WHERE phase = 'New' AND retry_at IS NOT NULL),
            'cancel those in back-off, or wait until they are Queued'),
           -- They would run however late it is.
           (3, 'backups that wait with a startDeadline',
            (SELECT count(*) FROM backups WHERE phase IN ('New', 'Queued') AND start_deadline IS NOT NULL AND first_ready_at IS NULL),
            'cancel those with a startDeadline, take it away, or wait until they were admitted'),
           -- They would run to their end.
           (4, 'running backups that are being canceled',
            (SELECT count(*) FROM backups WHERE slot IS NOT NULL AND cancel_requested_at IS NOT NULL),
            'wait until those that are being canceled have ended'),
           -- What waits in them would run at once.
           (5, 'paused queues',
            (SELECT count(*) FROM clusters c WHERE is_paused(c, clock_timestamp())),
            'resume the paused queues'),
           -- They would run without the namespaces that came, or go before others that
           -- they overlap. Who was enqueued since claims what there is.
           (6, 'queued backups that a change of the namespaces has not reached',
            (SELECT count(*) FROM amendments a JOIN clusters c ON c.id = a.cluster_id
               JOIN backups b ON b.cluster_id = a.cluster_id AND b.phase = 'Queued' AND (b.order_key, b.seq) > (a.order_key, a.seq)
              WHERE b.inventory_version <> c.inventory_version
                AND (b.has_pattern OR cardinality(a.relabelled) > 0 AND (b.scope = 'everything-but' OR b.spec -> 'includedNamespaces' ?| a.relabelled))),
            'let a berth server or worker work the change of the namespaces in, which takes it moments')
           ) k (n, kind, found, remedy)
     WHERE k.found > 0;
    IF kinds IS NOT NULL THEN
        RAISE EXCEPTION 'the schema of version 1 cannot hold %', kinds USING ERRCODE = 'BE003', HINT = 'first ' || remedies;
    END IF;
END $$;

DROP SCHEMA report CASCADE;
DROP VIEW backup_rows;

-- A backup keeps its place in the queue, and everybody's witness stays true. A
-- due notBefore counts as when it was asked for; so the place alone still tells
-- the priority, and the way up reads it back from there.
UPDATE backups SET enqueued_at = not_before WHERE not_before > enqueued_at;

-- Who is to be looked at again waits for nobody: the older schema knows no other
-- way to say so.
UPDATE backups b SET evaluated = false, blocked_by = NULL
  FROM relooks r
 WHERE b.cluster_id = r.cluster_id AND b.phase = 'Queued' AND (b.order_key, b.seq) >= (r.order_key, r.seq)
   AND b.resolved AND (r.everyone OR b.blocked_by IS NULL);
UPDATE backups SET blocked_by = NULL WHERE phase = 'Queued' AND NOT evaluated;
-- Each claim is as the namespaces are now: the older schema's queue resolves those
-- of an older version anew.
UPDATE backups b SET inventory_version = c.inventory_version FROM clusters c
 WHERE c.id = b.cluster_id AND b.phase = 'Queued' AND b.inventory_version <> c.inventory_version;

DROP FUNCTION worker_room(int, timestamptz);
DROP FUNCTION has_live_worker(int, timestamptz);
DROP INDEX leases_worker;
-- The next heartbeat says it again.
ALTER TABLE workers DROP renewed_at, DROP max_backups;
DROP FUNCTION is_reachable(clusters, timestamptz);
DROP FUNCTION is_paused(clusters, timestamptz);
-- First predictions only tell how right estimates were.
DROP TABLE predictions;
-- How far those that wait for one that left were looked at: they are all looked
-- at again.
ALTER TABLE departures DROP watcher, DROP order_key;
DROP TABLE amendments;
DROP TABLE relooks;
DROP INDEX backups_runs;
DROP INDEX backups_deadline;
DROP INDEX backups_due;
DROP INDEX backups_fresh;
CREATE INDEX backups_fresh ON backups (cluster_id, order_key, seq)
    WHERE phase = 'Queued' AND blocked_by IS NULL AND resolved AND NOT evaluated;
DROP INDEX backups_known;
CREATE INDEX backups_known ON backups (cluster_id, order_key, seq)
    WHERE phase = 'Queued' AND blocked_by IS NULL AND resolved AND evaluated;
DROP FUNCTION due_at(timestamptz, timestamptz);
DROP FUNCTION order_key_of(timestamptz, timestamptz, int);
-- What an edit or a setting was changed to is history that nobody decides on.
ALTER TABLE events DROP detail;
ALTER TABLE backups
    DROP CONSTRAINT backups_back_off_while_new, DROP CONSTRAINT backups_new_claims_nothing,
    -- Made of what stays, or read back from it: the place, and the events.
    DROP known, DROP fresh, DROP needs_inventory, DROP priority, DROP first_ready_at,
    -- Without effect, being past, met or of one that ended; others are refused above.
    DROP not_before, DROP start_deadline, DROP retry_at, DROP cancel_requested_at;
-- Which locations answer is found out anew. The older schema waits for none that
-- does not.
ALTER TABLE storage_locations DROP reached_at, DROP checked_at, DROP message, DROP available;
ALTER TABLE clusters
    DROP CONSTRAINT clusters_pause,
    -- Over, or refused above.
    DROP paused_by, DROP pause_reason, DROP paused_until, DROP paused_since,
    -- Whether there are workers, and whether the cluster answers, is found out
    -- anew. The older schema waits for none that does not.
    DROP reachable, DROP worker_changed_at, DROP has_worker, DROP seen_at,
    -- They make no backup run at another time, and have to be set again: until then
    -- any number may wait, and each backup has a pool of one worker.
    DROP max_queued, DROP item_block_worker_count,
    -- Since when a place is missing is told less exactly; entity tags begin anew.
    DROP limited_at, DROP settings_version;

CREATE OR REPLACE FUNCTION overlapping_predecessor(of_cluster int, of_seq bigint, of_order_key timestamptz, of_wide boolean, of_claim int8multirange)
    RETURNS TABLE (seq bigint) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT found.seq FROM (
        -- Two scopes of some namespaces meet in a row of claims each.
        (SELECT p.seq, p.rank, p.order_key
           FROM claims mine
          CROSS JOIN LATERAL (
                SELECT c.seq, c.rank, c.order_key FROM claims c
                 WHERE c.cluster_id = of_cluster AND c.namespace_id = mine.namespace_id
                   AND (c.rank, c.order_key, c.seq) < (1::smallint, of_order_key, of_seq)
                   AND c.seq <> of_seq
                 ORDER BY c.rank DESC, c.order_key DESC, c.seq DESC LIMIT 1) p
          WHERE mine.seq = of_seq AND NOT of_wide)
        UNION ALL
        -- A wide scope ahead, queued.
        (SELECT w.seq, 1::smallint, w.order_key FROM backups w
          WHERE w.cluster_id = of_cluster AND w.wide AND w.phase = 'Queued'
            AND (w.order_key, w.seq) < (of_order_key, of_seq) AND w.claim && of_claim
          ORDER BY w.order_key DESC, w.seq DESC LIMIT 1)
        UNION ALL
        -- A wide scope that runs.
        (SELECT w.seq, 0::smallint, w.order_key FROM backups w
          WHERE w.cluster_id = of_cluster AND w.wide AND w.seq <> of_seq
            AND w.phase IN ('ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')
            AND w.claim && of_claim
          ORDER BY w.order_key DESC, w.seq DESC LIMIT 1)
        UNION ALL
        -- This scope is wide: any claim ahead, queued.
        (SELECT q.seq, 1::smallint, q.order_key FROM backups q
          WHERE of_wide AND q.cluster_id = of_cluster AND q.phase = 'Queued'
            AND (q.order_key, q.seq) < (of_order_key, of_seq) AND q.claim && of_claim
          ORDER BY q.order_key DESC, q.seq DESC LIMIT 1)
        UNION ALL
        -- This scope is wide: any claim that runs.
        (SELECT r.seq, 0::smallint, r.order_key FROM backups r
          WHERE of_wide AND r.cluster_id = of_cluster AND r.seq <> of_seq
            AND r.slot IS NOT NULL AND r.claim && of_claim
          ORDER BY r.order_key DESC, r.seq DESC LIMIT 1)
    ) found
    ORDER BY found.rank DESC, found.order_key DESC, found.seq DESC LIMIT 1
$$;

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
