-- The audit: what the rows and the events show now that must never be, one view
-- a rule, and one over them all. Each is empty on a healthy database at any
-- moment, also while everything is going on: one statement sees one snapshot.
-- Where a rule has to do with time, the latest instant counts at which what it
-- forbids can have begun.
--
-- The views of the rules have the columns cluster_id, seq, detail and since;
-- report.audit is what others read.

-- Invariant 1: who runs holds a place that the cluster has, alone.
CREATE VIEW report.audit_running_without_slot AS
SELECT b.cluster_id, b.seq, format('%s in slot %s, which the cluster does not have', b.phase, coalesce(b.slot::text, 'none')) AS detail, b.ready_at AS since
  FROM backups b
 WHERE b.phase IN ('ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')
   AND NOT EXISTS (SELECT FROM slots s WHERE s.cluster_id = b.cluster_id AND s.slot = b.slot);
COMMENT ON VIEW report.audit_running_without_slot IS 'Running backups whose slot their cluster does not have.';

CREATE VIEW report.audit_slot_shared AS
SELECT b.cluster_id, b.seq, format('runs in slot %s beside %s', b.slot, o.name) AS detail, b.ready_at AS since
  FROM backups b
  JOIN backups o ON o.cluster_id = b.cluster_id AND o.slot = b.slot AND (o.ready_at, o.seq) < (b.ready_at, b.seq)
 WHERE b.slot IS NOT NULL;
COMMENT ON VIEW report.audit_slot_shared IS 'Running backups in one slot; one row for each pair, under the later one.';

-- Invariant 1: the limit was lowered after the last admission, or it holds. An
-- event that does not tell which limit changed may be of this one.
CREATE VIEW report.audit_above_limit AS
SELECT newest.cluster_id, newest.seq, format('%s run, the limit is %s', r.running, c.concurrent_backups) AS detail, newest.ready_at AS since
  FROM clusters c
 CROSS JOIN LATERAL (SELECT count(*) AS running FROM backups b WHERE b.cluster_id = c.id AND b.slot IS NOT NULL) r
 CROSS JOIN LATERAL (
       SELECT b.cluster_id, b.seq, b.ready_at FROM backups b
        WHERE b.cluster_id = c.id AND b.slot IS NOT NULL
        ORDER BY b.ready_at DESC, b.seq DESC LIMIT 1) newest
 WHERE r.running > c.concurrent_backups
   AND newest.ready_at > coalesce((
       SELECT e.at FROM events e
        WHERE e.cluster_id = c.id AND e.reason = 'LimitChanged' AND coalesce(e.detail ->> 'setting', 'concurrentBackups') = 'concurrentBackups'
        ORDER BY e.id DESC LIMIT 1), '-infinity');
COMMENT ON VIEW report.audit_above_limit IS 'Clusters in which a backup was admitted above the limit; under the newest admission.';

-- Invariant 2.
CREATE VIEW report.audit_namespace_shared AS
SELECT b.cluster_id, b.seq, format('runs beside %s and shares %s with it', o.name,
           coalesce(nullif(array_to_string((shared_names(b.cluster_id, b.claim, b.wide, o.claim, o.wide))[1:5], ', '), ''), 'what is to come')) AS detail,
       b.ready_at AS since
  FROM backups b
  JOIN backups o ON o.claim && b.claim AND (o.ready_at, o.seq) < (b.ready_at, b.seq)
 WHERE b.phase IN ('ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')
   AND o.phase IN ('ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed');
COMMENT ON VIEW report.audit_namespace_shared IS 'Running backups that share a namespace; one row for each pair, under the later one.';

-- Invariant 3: nobody who runs stood behind somebody who overlaps and still
-- waits. Who came to its place, or to what it claims, less than a minute before
-- the admission may not have been acknowledged by then.
CREATE VIEW report.audit_overtaken AS
SELECT q.cluster_id, q.seq, format('%s, which is behind it, was admitted before it', r.name) AS detail, r.ready_at AS since
  FROM backups r
 CROSS JOIN LATERAL (
       SELECT c.seq FROM claims held
         JOIN claims c ON c.cluster_id = held.cluster_id AND c.namespace_id = held.namespace_id AND c.rank = 1
          AND (c.order_key, c.seq) < (r.order_key, r.seq)
        WHERE held.seq = r.seq
       UNION
       SELECT w.seq FROM backups w
        WHERE w.cluster_id = r.cluster_id AND w.wide AND w.phase = 'Queued' AND (w.order_key, w.seq) < (r.order_key, r.seq) AND w.claim && r.claim
       UNION
       SELECT n.seq FROM backups n
        WHERE r.wide AND n.cluster_id = r.cluster_id AND n.phase = 'Queued' AND (n.order_key, n.seq) < (r.order_key, r.seq) AND n.claim && r.claim) ahead
  JOIN backups q ON q.seq = ahead.seq
 WHERE r.slot IS NOT NULL AND q.phase = 'Queued' AND q.enqueued_at < r.ready_at - interval '1 minute'
   AND coalesce((SELECT max(e.at) FROM events e
                  WHERE e.seq = q.seq AND e.at >= q.created_at AND e.to_phase = 'Queued' AND (e.from_phase <> 'Queued' OR e.reason = 'Edited')),
                '-infinity') < r.ready_at - interval '1 minute'
   AND (q.scope = 'everything' OR NOT EXISTS (
       SELECT FROM events e
        WHERE e.at >= r.ready_at - interval '1 minute' AND e.cluster_id = q.cluster_id AND e.reason = 'NamespacesChanged'));
COMMENT ON VIEW report.audit_overtaken IS 'Queued backups that a later one that they overlap was admitted before.';

-- Whether anybody is in the way of a queued backup.
CREATE FUNCTION report.has_predecessor(b backups) RETURNS boolean LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM overlapping_predecessor(b.cluster_id, b.seq, b.order_key, b.wide, b.claim));
END $$;
COMMENT ON FUNCTION report.has_predecessor IS 'Whether an active backup ahead of a queued one overlaps it.';

-- Whether a live worker would take another backup.
CREATE FUNCTION report.has_room(k workers) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN k.expires_at > statement_timestamp()
       AND (k.max_backups IS NULL OR k.max_backups > (SELECT count(*) FROM leases l WHERE l.worker = k.id));
COMMENT ON FUNCTION report.has_room IS 'Whether a live worker would take another backup.';

-- Invariant 4. Workers say what they have room for, and begin when the cluster's
-- namespaces are known; one that was not heard of since may be gone. What it was
-- that kept the backup waiting, it ended with the newest of these instants at the
-- latest. One row a cluster: its first.
CREATE VIEW report.audit_idle_while_admissible AS
SELECT c.id AS cluster_id, q.seq, 'nothing is in its way, a place is free, and a worker has room'::text AS detail, greatest(q.since, o.since) AS since
  FROM clusters c
 CROSS JOIN LATERAL (
       SELECT greatest(
              -- Who left or moved, and what changed for the whole cluster.
              (SELECT e.at FROM events e
                WHERE e.cluster_id = c.id
                  AND (e.seq IS NULL OR e.reason = 'Edited'
                       OR e.from_phase IN ('Queued', 'ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')
                          AND e.to_phase NOT IN ('ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')
                          AND e.from_phase <> e.to_phase)
                ORDER BY e.id DESC LIMIT 1),
              c.inventory_synced_at, c.paused_until,
              (SELECT min(k.started_at) FROM workers k WHERE k.cluster_id = c.id AND report.has_room(k))) AS since) o
 CROSS JOIN LATERAL (
       SELECT b.seq, greatest(b.enqueued_at, b.not_before,
              (SELECT max(e.at) FROM events e WHERE e.seq = b.seq AND e.at >= b.created_at AND (e.from_phase <> e.to_phase OR e.reason = 'Edited'))) AS since
         FROM backups b
        WHERE b.cluster_id = c.id AND b.phase = 'Queued' AND b.resolved
          AND b.enqueued_at < statement_timestamp() - interval '30 seconds'
          AND (b.start_deadline IS NULL OR b.first_ready_at IS NOT NULL OR b.start_deadline > statement_timestamp())
          AND NOT EXISTS (SELECT FROM amendments a WHERE a.cluster_id = b.cluster_id AND (a.order_key, a.seq) < (b.order_key, b.seq))
          AND (NOT b.needs_inventory OR c.reachable AND is_reachable(c, statement_timestamp()))
          AND EXISTS (SELECT FROM storage_locations l WHERE l.cluster_id = b.cluster_id AND l.name = b.location AND l.available)
          AND NOT EXISTS (SELECT FROM backups w WHERE w.seq = b.blocked_by AND in_the_way(w, b))
          AND NOT report.has_predecessor(b)
        ORDER BY b.order_key, b.seq LIMIT 1) q
 WHERE NOT is_paused(c, statement_timestamp()) AND c.has_worker AND c.inventory_synced_at IS NOT NULL
   AND (SELECT count(*) FROM backups r WHERE r.cluster_id = c.id AND r.slot IS NOT NULL) < c.concurrent_backups
   AND greatest(q.since, o.since) < (
       SELECT max(k.renewed_at) FROM workers k WHERE k.cluster_id = c.id AND report.has_room(k)) - interval '30 seconds';
COMMENT ON VIEW report.audit_idle_while_admissible IS 'Clusters with a free place, a worker with room and an admissible backup, for 30 seconds; under the first such backup.';

-- Invariant 5: a witness is in the way, or those who wait for it are about to be
-- looked at again.
CREATE VIEW report.audit_witness_not_in_the_way AS
SELECT b.cluster_id, b.seq, format('waits for %s, which is not in its way', coalesce(w.name, 'a backup that is gone')) AS detail, b.blocked_since AS since
  FROM backups b
  LEFT JOIN backups w ON w.seq = b.blocked_by
 WHERE b.blocked_by IS NOT NULL AND b.evaluated AND in_the_way(w, b) IS NOT TRUE
   AND NOT EXISTS (SELECT FROM departures d WHERE d.cluster_id = b.cluster_id AND d.seq = b.blocked_by);
COMMENT ON VIEW report.audit_witness_not_in_the_way IS 'Queued backups whose stored witness is not in their way, and that nobody is about to look at again.';

-- Claims have a row for each namespace of an active backup that claims some.
CREATE VIEW report.audit_claims_differ AS
SELECT b.cluster_id, b.seq, format('%s claims %s with order key %s, its rows say %s, rank %s to %s, order key %s to %s', b.phase, b.rowed, b.order_key,
           coalesce(h.claim, '{}'), h.least_rank, h.greatest_rank, h.least_key, h.greatest_key) AS detail,
       coalesce(b.ready_at, b.enqueued_at) AS since
  FROM (SELECT a.*, CASE WHEN a.scope = 'some' AND NOT a.wide THEN a.claim ELSE '{}' END AS rowed, CASE WHEN a.phase = 'Queued' THEN 1 ELSE 0 END AS rank
          FROM backups a
         WHERE a.phase IN ('Queued', 'ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')) b
  LEFT JOIN (
       SELECT c.seq, range_agg(int8range(claim_key(c.cluster_id, c.namespace_id), claim_key(c.cluster_id, c.namespace_id) + 1)) AS claim,
              min(c.rank) AS least_rank, max(c.rank) AS greatest_rank, min(c.order_key) AS least_key, max(c.order_key) AS greatest_key
         FROM claims c GROUP BY c.seq) h USING (seq)
 WHERE b.rowed <> coalesce(h.claim, '{}')
    OR (h.least_rank, h.greatest_rank, h.least_key, h.greatest_key) IS DISTINCT FROM (b.rank, b.rank, b.order_key, b.order_key) AND h.seq IS NOT NULL;
COMMENT ON VIEW report.audit_claims_differ IS 'Active backups whose rows of claims are not what they claim.';

CREATE VIEW report.audit_new_with_claims AS
SELECT b.cluster_id, b.seq, 'New and claims namespaces'::text AS detail, b.enqueued_at AS since
  FROM backups b
 WHERE b.phase = 'New' AND (b.claim <> '{}' OR EXISTS (SELECT FROM claims c WHERE c.seq = b.seq));
COMMENT ON VIEW report.audit_new_with_claims IS 'Backups that are not due and claim namespaces.';

CREATE VIEW report.audit_ended_with_claims AS
SELECT b.cluster_id, b.seq, format('%s and still claims namespaces', b.phase) AS detail, b.completed_at AS since
  FROM backups b
 WHERE b.seq IN (SELECT c.seq FROM claims c)
   AND b.phase NOT IN ('New', 'Queued', 'ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed');
COMMENT ON VIEW report.audit_ended_with_claims IS 'Backups that ended and still claim namespaces.';

-- The place in the queue is what it is made of.
CREATE VIEW report.audit_order_key_differs AS
SELECT b.cluster_id, b.seq, format('stands at %s, its times and its priority say %s', b.order_key, order_key_of(b.enqueued_at, b.not_before, b.priority)) AS detail,
       b.enqueued_at AS since
  FROM backups b
 WHERE b.phase IN ('New', 'Queued', 'ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')
   AND b.order_key IS DISTINCT FROM order_key_of(b.enqueued_at, b.not_before, b.priority);
COMMENT ON VIEW report.audit_order_key_differs IS 'Backups whose place is not what their times and their priority make.';

-- Who runs has a lease with its fence, and nobody else has one.
CREATE VIEW report.audit_running_without_lease AS
SELECT b.cluster_id, b.seq, format('%s without a lease', b.phase) AS detail, b.ready_at AS since
  FROM backups b
 WHERE b.phase IN ('ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')
   AND NOT EXISTS (SELECT FROM leases l WHERE l.seq = b.seq);
COMMENT ON VIEW report.audit_running_without_lease IS 'Running backups without a lease.';

CREATE VIEW report.audit_lease_without_running AS
SELECT b.cluster_id, b.seq, format('%s with a lease of worker %s', b.phase, l.worker) AS detail, coalesce(b.completed_at, b.enqueued_at) AS since
  FROM leases l JOIN backups b USING (seq)
 WHERE b.phase NOT IN ('ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed');
COMMENT ON VIEW report.audit_lease_without_running IS 'Leases of backups that do not run.';

CREATE VIEW report.audit_fences_differ AS
SELECT b.cluster_id, b.seq, format('has fence %s, its lease has %s', b.fence, l.fence) AS detail, b.ready_at AS since
  FROM leases l JOIN backups b USING (seq)
 WHERE l.fence <> b.fence;
COMMENT ON VIEW report.audit_fences_differ IS 'Leases with another fence than their backup.';

-- A backup's newest event. In PL/pgSQL, which is not inlined, as the next one:
-- the views that ask for many would look so costly that each reader compiled them.
CREATE FUNCTION report.newest_event(of_seq bigint, created_at timestamptz, OUT to_phase text, OUT at timestamptz)
    LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    SELECT e.to_phase, e.at INTO newest_event.to_phase, newest_event.at FROM events e
     WHERE e.seq = of_seq AND e.at BETWEEN newest_event.created_at AND statement_timestamp() + interval '1 hour'
     ORDER BY e.id DESC LIMIT 1;
END $$;
COMMENT ON FUNCTION report.newest_event IS 'A backup''s newest event; nulls where there is none.';

-- Every transition has an event. What ended is looked at for a day: it does not
-- change any more, and there is no end of it. Where the events of a time were
-- dropped, a backup from before is not expected to have one.
CREATE VIEW report.audit_phase_not_in_events AS
SELECT b.cluster_id, b.seq, format('%s, its newest event says %s', b.phase, coalesce(e.to_phase, 'nothing')) AS detail, coalesce(e.at, b.created_at) AS since
  FROM backups b CROSS JOIN LATERAL report.newest_event(b.seq, b.created_at) e
 WHERE (b.completed_at IS NULL OR b.completed_at > statement_timestamp() - interval '1 day' OR b.phase = 'Deleting')
   AND b.phase IS DISTINCT FROM e.to_phase
   AND (e.at IS NOT NULL OR b.created_at >= (SELECT min(o.at) FROM events o));
COMMENT ON VIEW report.audit_phase_not_in_events IS 'Backups whose newest event tells of another phase.';

-- What the clock brings about, dispatchers and markers do within seconds.
CREATE VIEW report.audit_waiting_past_deadline AS
SELECT b.cluster_id, b.seq, format('%s, and was to have been admitted by %s', b.phase, b.start_deadline) AS detail, b.start_deadline AS since
  FROM backups b
 WHERE b.phase IN ('New', 'Queued') AND b.first_ready_at IS NULL AND b.start_deadline < statement_timestamp() - interval '30 seconds';
COMMENT ON VIEW report.audit_waiting_past_deadline IS 'Backups that wait 30 seconds after their start deadline.';

CREATE VIEW report.audit_paused_past_end AS
SELECT c.id AS cluster_id, NULL::bigint AS seq, format('the pause was to end at %s', c.paused_until) AS detail, c.paused_until AS since
  FROM clusters c
 WHERE c.paused_since IS NOT NULL AND c.paused_until < statement_timestamp() - interval '30 seconds';
COMMENT ON VIEW report.audit_paused_past_end IS 'Queues that are paused 30 seconds after the end of the pause.';

CREATE VIEW report.audit AS
SELECT v.check_name, c.name AS cluster, b.id AS backup_id, b.name AS backup, v.detail, v.since
  FROM (SELECT 'RunningWithoutSlot' AS check_name, * FROM report.audit_running_without_slot
        UNION ALL SELECT 'SlotShared', * FROM report.audit_slot_shared
        UNION ALL SELECT 'AboveLimit', * FROM report.audit_above_limit
        UNION ALL SELECT 'NamespaceShared', * FROM report.audit_namespace_shared
        UNION ALL SELECT 'Overtaken', * FROM report.audit_overtaken
        UNION ALL SELECT 'IdleWhileAdmissible', * FROM report.audit_idle_while_admissible
        UNION ALL SELECT 'WitnessNotInTheWay', * FROM report.audit_witness_not_in_the_way
        UNION ALL SELECT 'ClaimsDiffer', * FROM report.audit_claims_differ
        UNION ALL SELECT 'NewWithClaims', * FROM report.audit_new_with_claims
        UNION ALL SELECT 'EndedWithClaims', * FROM report.audit_ended_with_claims
        UNION ALL SELECT 'OrderKeyDiffers', * FROM report.audit_order_key_differs
        UNION ALL SELECT 'RunningWithoutLease', * FROM report.audit_running_without_lease
        UNION ALL SELECT 'LeaseWithoutRunning', * FROM report.audit_lease_without_running
        UNION ALL SELECT 'FencesDiffer', * FROM report.audit_fences_differ
        UNION ALL SELECT 'PhaseNotInEvents', * FROM report.audit_phase_not_in_events
        UNION ALL SELECT 'WaitingPastDeadline', * FROM report.audit_waiting_past_deadline
        UNION ALL SELECT 'PausedPastEnd', * FROM report.audit_paused_past_end) v
  LEFT JOIN clusters c ON c.id = v.cluster_id
  LEFT JOIN backups b ON b.seq = v.seq;
COMMENT ON VIEW report.audit IS 'Violations of the queue''s invariants that the rows and the events show now: empty on a healthy database at any moment. Any row is an alarm.';
COMMENT ON COLUMN report.audit.check_name IS 'Which rule does not hold.';
COMMENT ON COLUMN report.audit.cluster IS 'The cluster''s name.';
COMMENT ON COLUMN report.audit.backup_id IS 'The backup that it shows in; null where it is the cluster.';
COMMENT ON COLUMN report.audit.backup IS 'That backup''s name.';
COMMENT ON COLUMN report.audit.detail IS 'A sentence for a person.';
COMMENT ON COLUMN report.audit.since IS 'The latest instant at which it can have begun; null where the rows do not tell.';

-- How right the first prediction of each start was. A retry is a new start,
-- which its prediction did not mean.
CREATE VIEW report.eta_calibration AS
SELECT c.name AS cluster, p.day, count(*) AS predictions,
       count(*) FILTER (WHERE p.started) AS started,
       count(*) FILTER (WHERE p.started AND p.first_ready_at <= p.start_p90) AS started_before_p90,
       count(*) FILTER (WHERE p.overdue) AS overdue,
       (count(*) FILTER (WHERE p.started AND p.first_ready_at <= p.start_p90))::float8
           / nullif(count(*) FILTER (WHERE p.started OR p.overdue), 0) AS share
  FROM (SELECT b.cluster_id, b.first_ready_at, e.start_p90, (e.predicted_at AT TIME ZONE 'UTC')::date AS day,
               b.first_ready_at IS NOT NULL AS started,
               b.phase IN ('New', 'Queued') AND b.first_ready_at IS NULL AND e.start_p90 < statement_timestamp() AS overdue
          FROM predictions e JOIN backups b USING (seq)
         WHERE e.predicted_at >= b.enqueued_at) p
  JOIN clusters c ON c.id = p.cluster_id
 GROUP BY GROUPING SETS ((c.name, p.day), (c.name));
COMMENT ON VIEW report.eta_calibration IS 'How right predicted starts were, by cluster and the day of the prediction, and by cluster over all days.';
COMMENT ON COLUMN report.eta_calibration.cluster IS 'The cluster''s name.';
COMMENT ON COLUMN report.eta_calibration.day IS 'The day of the predictions, in UTC; null for all days together.';
COMMENT ON COLUMN report.eta_calibration.predictions IS 'Backups whose start was predicted.';
COMMENT ON COLUMN report.eta_calibration.started IS 'Those of them that were admitted.';
COMMENT ON COLUMN report.eta_calibration.started_before_p90 IS 'Those of them that were admitted by the predicted p90.';
COMMENT ON COLUMN report.eta_calibration.overdue IS 'Those that still wait although the predicted p90 is over.';
COMMENT ON COLUMN report.eta_calibration.share IS 'Started by the p90, of those that started or are overdue: 0.9 where the predictions are right; null where there is none yet.';
