-- Admission in full: priorities, due times and deadlines, pauses, caps, what the
-- wait reasons need to know, looking again, and the audit.

ALTER TABLE clusters
    -- When concurrent_backups was last lowered while a place was free.
    ADD limited_at timestamptz,
    -- How many workers the pool of each running backup has.
    ADD item_block_worker_count int NOT NULL DEFAULT 1 CHECK (item_block_worker_count BETWEEN 1 AND 1000),
    -- How many backups may wait; null: any number.
    ADD max_queued int CHECK (max_queued > 0),
    -- Moves with every change of the limits above and of the pause.
    ADD settings_version bigint NOT NULL DEFAULT 1,
    -- While the queue is paused nothing is admitted: since when, until when at
    -- most, why and by whom.
    ADD paused_since timestamptz,
    ADD paused_until timestamptz,
    ADD pause_reason text NOT NULL DEFAULT '',
    ADD paused_by text NOT NULL DEFAULT '',
    -- When the cluster's API last answered whoever keeps the inventory; null
    -- where nobody ever said so.
    ADD seen_at timestamptz,
    -- As the newest event of the cluster has it.
    ADD has_worker boolean NOT NULL DEFAULT false,
    ADD worker_changed_at timestamptz,
    ADD reachable boolean NOT NULL DEFAULT true,
    ADD CONSTRAINT clusters_pause CHECK (paused_since IS NOT NULL OR paused_until IS NULL);

ALTER TABLE storage_locations
    ADD available boolean NOT NULL DEFAULT true,
    -- Why it is not available.
    ADD message text NOT NULL DEFAULT '',
    -- When somebody last looked, and when it last answered; null: never.
    ADD checked_at timestamptz,
    ADD reached_at timestamptz;

ALTER TABLE backups
    -- Minutes: as if the backup had been asked for so much earlier.
    ADD priority int NOT NULL DEFAULT 0 CHECK (priority BETWEEN -10080 AND 10080),
    -- Not before this instant does it enter the queue.
    ADD not_before timestamptz,
    -- Not first admitted by this instant, it fails without having run.
    ADD start_deadline timestamptz,
    -- The end of a back-off after a lost attempt.
    ADD retry_at timestamptz,
    -- When it was first admitted since it was last asked for.
    ADD first_ready_at timestamptz,
    -- When somebody asked for its end while it ran.
    ADD cancel_requested_at timestamptz,
    -- Whether what it claims depends on which namespaces there are.
    ADD needs_inventory boolean NOT NULL GENERATED ALWAYS AS (has_pattern OR scope = 'everything-but') STORED,
    -- What a dequeue looks at: those that nobody has looked at since they may have
    -- changed, and those that nothing is known to be in the way of. Columns, so that
    -- no plan finds them by walking all that wait (TestPlansUseIndexes).
    ADD fresh boolean NOT NULL GENERATED ALWAYS AS (phase = 'Queued' AND NOT evaluated) STORED,
    ADD known boolean NOT NULL GENERATED ALWAYS AS (phase = 'Queued' AND blocked_by IS NULL AND resolved AND evaluated) STORED,
    ADD CONSTRAINT backups_new_claims_nothing CHECK (phase <> 'New' OR claim = '{}'),
    ADD CONSTRAINT backups_back_off_while_new CHECK (retry_at IS NULL OR phase = 'New');

-- Where the schema had this version before, the place in the queue tells the
-- priority, and the events the first admission.
UPDATE backups SET priority = extract(epoch FROM enqueued_at - order_key) / 60 WHERE order_key <> enqueued_at;
UPDATE backups b
   SET first_ready_at = (SELECT min(e.at) FROM events e WHERE e.seq = b.seq AND e.to_phase = 'ReadyToStart' AND e.at >= b.enqueued_at)
 WHERE b.fence > 0 AND (b.phase = 'Queued' OR b.slot IS NOT NULL);

ALTER TABLE workers
    -- How many backups it runs at once at most; null: any number; 0: it takes nothing more.
    ADD max_backups int CHECK (max_backups >= 0),
    -- When it was last heard of.
    ADD renewed_at timestamptz NOT NULL DEFAULT clock_timestamp();
CREATE INDEX leases_worker ON leases (worker);

-- What a cluster's change was, for those who read events by program.
ALTER TABLE events ADD detail jsonb;

-- The place in the queue: submitted when it was asked for or became due, and a
-- minute earlier for each of its priority. It is static, so that who waits ages
-- by itself.
CREATE FUNCTION order_key_of(enqueued_at timestamptz, not_before timestamptz, priority int) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE RETURN greatest(enqueued_at, not_before) - make_interval(mins => priority);

-- When a New backup enters the queue.
CREATE FUNCTION due_at(not_before timestamptz, retry_at timestamptz) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN coalesce(greatest(not_before, retry_at), '-infinity'::timestamptz);

CREATE INDEX backups_due ON backups (cluster_id, due_at(not_before, retry_at)) WHERE phase = 'New';
CREATE INDEX backups_deadline ON backups (cluster_id, start_deadline)
    WHERE phase IN ('New', 'Queued') AND start_deadline IS NOT NULL AND first_ready_at IS NULL;
-- Those that nobody has looked at keep what was in their way before.
DROP INDEX backups_fresh;
CREATE INDEX backups_fresh ON backups (cluster_id, order_key, seq) WHERE fresh;
-- Those that nothing is known to be in the way of are read by what may keep them
-- all the same: a storage location that is down, or a cluster that does not answer,
-- hides nobody behind those that wait for it.
DROP INDEX backups_known;
CREATE INDEX backups_known ON backups (cluster_id, location, needs_inventory, order_key, seq) WHERE known;
-- What the last runs took.
CREATE INDEX backups_runs ON backups (cluster_id, completed_at DESC) WHERE phase IN ('Completed', 'PartiallyFailed');

-- Up to which place those that wait for one that left were looked at.
ALTER TABLE departures
    ADD order_key timestamptz NOT NULL DEFAULT '-infinity',
    ADD watcher   bigint NOT NULL DEFAULT 0;

-- Who stands at this place or behind it may have got somebody ahead since it was
-- looked at: of everyone in the queue, or of those that nothing was in the way of.
CREATE TABLE relooks (
    cluster_id int PRIMARY KEY REFERENCES clusters,
    order_key  timestamptz NOT NULL,
    seq        bigint NOT NULL,
    everyone   boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);

-- While a change of a cluster's namespaces is worked into the claims of its
-- queue, in the order of the queue: those behind this place may claim what was.
-- None of them is admitted, and no witness is written for them.
CREATE TABLE amendments (
    cluster_id int PRIMARY KEY REFERENCES clusters,
    order_key  timestamptz NOT NULL,
    seq        bigint NOT NULL,
    -- The namespaces that changed, and of those the ones that the exclude label
    -- came to or left; all of them where names is null.
    names      text[],
    relabelled text[] NOT NULL
) WITH (fillfactor = 50);

-- When a waiting backup was first expected to start; how right that was is the
-- estimates' calibration.
CREATE TABLE predictions (
    seq          bigint PRIMARY KEY REFERENCES backups ON DELETE CASCADE,
    predicted_at timestamptz NOT NULL,
    start_p50    timestamptz NOT NULL,
    start_p90    timestamptz NOT NULL,
    basis        text NOT NULL
);

-- Whether nothing may be admitted now.
CREATE FUNCTION is_paused(c clusters, at timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN c.paused_since IS NOT NULL AND (c.paused_until IS NULL OR c.paused_until > at);

-- Whether the cluster's namespaces are as they were last seen. Where they were
-- never known there is nothing to be out of date.
CREATE FUNCTION is_reachable(c clusters, at timestamptz) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN c.inventory_synced_at IS NULL OR c.seen_at IS NULL OR c.seen_at > at - interval '60 seconds';

-- Whether some worker of the cluster is alive. One that takes nothing more is none
-- that anybody waits for.
CREATE FUNCTION has_live_worker(of_cluster int, at timestamptz) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN EXISTS (SELECT FROM workers k WHERE k.cluster_id = of_cluster AND k.expires_at > at AND k.max_backups IS DISTINCT FROM 0);

-- How many backups a cluster's live workers run at once at most, and how many more
-- of them they take now; nulls where one takes any number, or none is alive.
CREATE FUNCTION worker_room(of_cluster int, at timestamptz, OUT max_backups bigint, OUT room bigint) LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN NOT bool_or(k.max_backups IS NULL) THEN sum(k.max_backups) END,
           CASE WHEN NOT bool_or(k.max_backups IS NULL)
                THEN sum(greatest(0, k.max_backups - (SELECT count(*) FROM leases l WHERE l.worker = k.id)))::bigint END
      FROM workers k WHERE k.cluster_id = of_cluster AND k.expires_at > at AND k.max_backups IS DISTINCT FROM 0;
END;

-- The rule, as before. A scope of more than 1,000 namespaces looks along the queue
-- as a wide one does, which costs what the queue is long: to look each of them up
-- costs more.
CREATE OR REPLACE FUNCTION overlapping_predecessor(of_cluster int, of_seq bigint, of_order_key timestamptz, of_wide boolean, of_claim int8multirange)
    RETURNS TABLE (seq bigint) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT found.seq
      FROM (SELECT of_wide OR coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(of_claim) r), 0) > 1000 AS along_the_queue) look
     CROSS JOIN LATERAL (
        -- Two scopes of some namespaces meet in a row of claims each.
        (SELECT p.seq, p.rank, p.order_key
           FROM claims mine
          CROSS JOIN LATERAL (
                SELECT c.seq, c.rank, c.order_key FROM claims c
                 WHERE c.cluster_id = of_cluster AND c.namespace_id = mine.namespace_id
                   AND (c.rank, c.order_key, c.seq) < (1::smallint, of_order_key, of_seq)
                   AND c.seq <> of_seq
                 ORDER BY c.rank DESC, c.order_key DESC, c.seq DESC LIMIT 1) p
          WHERE mine.seq = of_seq AND NOT look.along_the_queue)
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
        -- Any claim ahead, queued.
        (SELECT q.seq, 1::smallint, q.order_key FROM backups q
          WHERE look.along_the_queue AND q.cluster_id = of_cluster AND q.phase = 'Queued'
            AND (q.order_key, q.seq) < (of_order_key, of_seq) AND q.claim && of_claim
          ORDER BY q.order_key DESC, q.seq DESC LIMIT 1)
        UNION ALL
        -- Any claim that runs.
        (SELECT r.seq, 0::smallint, r.order_key FROM backups r
          WHERE look.along_the_queue AND r.cluster_id = of_cluster AND r.seq <> of_seq
            AND r.slot IS NOT NULL AND r.claim && of_claim
          ORDER BY r.order_key DESC, r.seq DESC LIMIT 1)
    ) found
    ORDER BY found.rank DESC, found.order_key DESC, found.seq DESC LIMIT 1
$$;

-- The namespaces that two claims share, by name, at most 100. Two wide ones share
-- what is to come too; of all that the namespaces that the cluster has are named.
-- Of more than 1,000 the first are found by going through the names.
CREATE OR REPLACE FUNCTION shared_names(of_cluster int, a int8multirange, a_wide boolean, b int8multirange, b_wide boolean)
    RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN a_wide AND b_wide THEN
        (SELECT coalesce(array_agg(s.name), '{}') FROM (
            SELECT n.name FROM namespaces n
             WHERE n.cluster_id = of_cluster AND n.present AND a @> claim_key(of_cluster, n.id) AND b @> claim_key(of_cluster, n.id)
             ORDER BY n.name LIMIT 100) s)
    WHEN (SELECT sum(upper(r) - lower(r)) FROM unnest(a * b) r) > 1000 THEN
        (SELECT coalesce(array_agg(s.name), '{}') FROM (
            SELECT n.name FROM namespaces n WHERE n.cluster_id = of_cluster AND a * b @> claim_key(of_cluster, n.id) ORDER BY n.name LIMIT 100) s)
    ELSE (claim_names(a * b))[1:100] END
$$;

-- A queued backup's place, from 1: one scan of the queue's index. In PL/pgSQL,
-- whose statements are planned once and not anew for each row.
CREATE OR REPLACE FUNCTION queue_position(of_seq bigint) RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    b backups;
BEGIN
    SELECT * INTO b FROM backups WHERE seq = of_seq;
    RETURN (SELECT count(*) FROM backups q
             WHERE q.cluster_id = b.cluster_id AND q.phase = 'Queued' AND (q.order_key, q.seq) <= (b.order_key, b.seq));
END $$;

-- How many active backups ahead of a queued one overlap it, at most 1,000 of
-- them: behind a namespace that everybody wants that many are enough to know.
CREATE OR REPLACE FUNCTION overlapping_ahead(of_seq bigint) RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    b backups;
BEGIN
    SELECT * INTO b FROM backups WHERE seq = of_seq;
    IF b.wide OR (SELECT sum(upper(r) - lower(r)) FROM unnest(b.claim) r) > 1000 THEN
        RETURN least(1000, (SELECT count(*) FROM (
            SELECT FROM backups q
             WHERE q.cluster_id = b.cluster_id AND q.phase = 'Queued'
               AND (q.order_key, q.seq) < (b.order_key, b.seq) AND q.claim && b.claim LIMIT 1000) queued)
          + (SELECT count(*) FROM backups r WHERE r.cluster_id = b.cluster_id AND r.slot IS NOT NULL AND r.claim && b.claim));
    END IF;
    -- Two scopes of some namespaces meet in a row of claims each. Whose claims
    -- run has rank 0, whose wait has rank 1.
    RETURN least(1000, (SELECT count(*) FROM (
            SELECT DISTINCT p.seq FROM claims mine CROSS JOIN LATERAL (
                (SELECT c.seq FROM claims c
                  WHERE c.cluster_id = b.cluster_id AND c.namespace_id = mine.namespace_id AND c.rank = 0 AND c.seq <> b.seq)
                UNION ALL
                (SELECT c.seq FROM claims c
                  WHERE c.cluster_id = b.cluster_id AND c.namespace_id = mine.namespace_id AND c.rank = 1
                    AND (c.order_key, c.seq) < (b.order_key, b.seq)
                  LIMIT 1000)) p
             WHERE mine.seq = b.seq LIMIT 1000) narrow)
      + (SELECT count(*) FROM (
            SELECT FROM backups w
             WHERE w.cluster_id = b.cluster_id AND w.wide
               AND w.phase IN ('Queued', 'ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')
               AND in_the_way(w, b) LIMIT 1000) wide));
END $$;

-- Backups as readers see them, all but the place in the queue. Why one waits is
-- the first of the closed list that holds (reason.go).
DROP VIEW backup_rows;
CREATE VIEW backup_rows AS
SELECT b.seq, b.id, b.cluster_id, c.name AS cluster, b.name, b.phase, b.reason, b.message,
       b.labels, b.annotations, b.spec, b.location, b.version, b.priority, b.order_key, b.not_before, b.start_deadline, b.retry_at,
       b.created_at, b.ready_at, b.started_at, b.completed_at, b.expires_at,
       CASE WHEN b.phase <> 'New' OR b.retry_at IS NOT NULL THEN greatest(b.enqueued_at, b.not_before) END AS enqueued_at,
       b.wide AND b.phase <> 'New' AS wide, b.contents, b.attempt, b.max_attempts, b.slot, b.worker,
       b.warnings, b.errors, b.validation_errors, b.failure_reason,
       CASE WHEN b.scope = 'some' AND b.resolved THEN claim_names(b.claim) ELSE '{}' END AS names,
       -- One that is not due claims nothing, and so does one that ended before it was.
       CASE WHEN b.scope = 'everything-but' AND b.resolved AND b.claim <> '{}'
            THEN claim_names(claim_everything(b.cluster_id) - b.claim) ELSE '{}' END AS except_names,
       p.items_backed_up, p.total_items, p.bytes, p.updated_at AS progress_at,
       w.id AS blocker_id, w.name AS blocker_name,
       coalesce(shared_names(b.cluster_id, b.claim, b.wide, w.claim, w.wide), '{}') AS blocker_namespaces,
       CASE WHEN b.phase NOT IN ('New', 'Queued') THEN ''
            WHEN b.phase = 'New' AND b.not_before > statement_timestamp() THEN 'NotBefore'
            WHEN b.phase = 'New' AND b.retry_at > statement_timestamp() THEN 'BackOff'
            -- Its time has come, and the next dequeue puts it into the queue.
            WHEN b.phase = 'New' AND b.not_before >= coalesce(b.retry_at, '-infinity') THEN 'NotBefore'
            WHEN b.phase = 'New' AND b.retry_at IS NOT NULL THEN 'BackOff'
            WHEN is_paused(c, statement_timestamp()) THEN 'QueuePaused'
            WHEN NOT has_live_worker(b.cluster_id, statement_timestamp()) THEN 'NoWorker'
            WHEN b.needs_inventory AND NOT is_reachable(c, statement_timestamp()) THEN 'ClusterUnreachable'
            WHEN NOT coalesce(l.available, false) THEN 'StorageUnavailable'
            WHEN NOT b.resolved THEN 'ScopeUnresolvable'
            WHEN w.slot IS NOT NULL THEN 'RunningOverlap'
            WHEN w.seq IS NOT NULL THEN 'EarlierQueuedOverlap'
            WHEN places.running >= c.concurrent_backups OR places.room = 0 THEN 'NoFreeSlot'
            ELSE 'Dispatch' END AS wait_reason,
       CASE WHEN w.seq = b.blocked_by THEN b.blocked_since END AS waiting_since,
       CASE WHEN NOT c.has_worker THEN greatest(b.enqueued_at, coalesce(c.worker_changed_at, c.created_at)) END AS no_worker_since,
       CASE WHEN b.phase = 'New'
            THEN (SELECT max(e.at) FROM events e
                   WHERE e.seq = b.seq AND e.at >= b.created_at AND e.to_phase = 'New' AND e.from_phase <> 'New') END AS new_since,
       CASE WHEN b.phase = 'Queued'
            THEN (SELECT greatest(b.enqueued_at, c.limited_at, max(r.ready_at),
                                  (SELECT max(e.at) FROM events e
                                    WHERE e.seq = b.seq AND e.at >= b.created_at AND e.to_phase = 'Queued' AND e.from_phase <> 'Queued'))
                    FROM backups r WHERE r.cluster_id = b.cluster_id AND r.slot IS NOT NULL) END AS full_since,
       c.concurrent_backups, CASE WHEN places.running < c.concurrent_backups THEN places.max_backups END AS workers_max_backups,
       c.paused_since, c.paused_until, c.pause_reason, c.paused_by, c.seen_at,
       l.message AS location_message, l.reached_at AS location_reached_at
  FROM backups b
  JOIN clusters c ON c.id = b.cluster_id
  LEFT JOIN storage_locations l ON l.cluster_id = b.cluster_id AND l.name = b.location
  LEFT JOIN progress p ON p.seq = b.seq
  -- The stored witness while it is in the way, else the one that the rule finds now.
  LEFT JOIN LATERAL (
        SELECT s.seq FROM backups s WHERE s.seq = b.blocked_by AND in_the_way(s, b)
        ) stored ON b.phase = 'Queued'
  LEFT JOIN LATERAL (
        SELECT o.seq FROM overlapping_predecessor(b.cluster_id, b.seq, b.order_key, b.wide, b.claim) o
        ) found ON b.phase = 'Queued' AND stored.seq IS NULL
  LEFT JOIN backups w ON w.seq = coalesce(stored.seq, found.seq)
  -- What there is for one that nobody is in the way of.
  LEFT JOIN LATERAL (
        SELECT (SELECT count(*) FROM backups r WHERE r.cluster_id = b.cluster_id AND r.slot IS NOT NULL) AS running, k.max_backups, k.room
          FROM worker_room(b.cluster_id, statement_timestamp()) k
        ) places ON b.phase = 'Queued' AND w.seq IS NULL;

-- What reports read.
CREATE SCHEMA report;
COMMENT ON SCHEMA report IS 'Views with stable, documented columns.';
