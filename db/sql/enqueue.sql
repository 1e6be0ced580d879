-- Puts backups into the queue, or New where they are not due yet (READ
-- COMMITTED, no gate). The names that they claim are resolved by the caller,
-- under the cluster's shared inventory lock.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
asked AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(@backups::jsonb) AS a (
        n int, id uuid, name text, labels jsonb, annotations jsonb, spec jsonb, location text, keep_seconds float8,
        priority int, not_before timestamptz, start_deadline timestamptz,
        scope text, has_pattern boolean, resolved boolean, namespace_ids int[], left_out int[])),
queued AS (
    INSERT INTO backups (id, cluster_id, name, phase, reason, labels, annotations, spec, location, keep_for,
                         created_at, enqueued_at, order_key, priority, not_before, start_deadline, max_attempts,
                         scope, has_pattern, resolved, inventory_version, left_out, claim)
    SELECT a.id, @cluster_id::int, a.name, CASE WHEN later THEN 'New' ELSE 'Queued' END, CASE WHEN later THEN 'NotBefore' ELSE 'Enqueued' END,
           a.labels, a.annotations, a.spec, a.location, make_interval(secs => a.keep_seconds),
           at, at, order_key_of(at, a.not_before, a.priority), a.priority, a.not_before, a.start_deadline, @max_attempts::int,
           a.scope, a.has_pattern, a.resolved OR later, @inventory_version::bigint, a.left_out,
           CASE WHEN later THEN '{}'
                WHEN NOT a.resolved OR a.scope = 'everything' THEN claim_everything(@cluster_id::int)
                WHEN a.scope = 'everything-but' THEN claim_everything(@cluster_id::int) - claim_some(@cluster_id::int, a.namespace_ids)
                WHEN a.scope = 'some' THEN claim_some(@cluster_id::int, a.namespace_ids)
                ELSE '{}' END
      FROM asked a, instant, LATERAL (SELECT coalesce(a.not_before > at, false) AS later) l
     ORDER BY a.n
    RETURNING seq, id, cluster_id, order_key, phase, reason, attempt, wide, scope),
claimed AS (
    INSERT INTO claims (cluster_id, namespace_id, rank, order_key, seq)
    SELECT q.cluster_id, namespace_id, 1, q.order_key, q.seq FROM queued q JOIN asked a USING (id), unnest(a.namespace_ids) AS namespace_id
     WHERE q.phase = 'Queued' AND q.scope = 'some' AND NOT q.wide),
logged AS (
    INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, attempt)
    SELECT at, q.cluster_id, q.seq, '', q.phase, q.reason, q.attempt FROM queued q, instant),
mirrored AS (
    INSERT INTO mirror_outbox (cluster_id, seq) SELECT cluster_id, seq FROM queued ORDER BY seq),
told AS (SELECT pg_notify('berth_queue', @cluster_id::int::text) FROM (SELECT FROM queued LIMIT 1) any_queued)
SELECT (SELECT count(*) FROM queued), (SELECT count(*) FROM told)
