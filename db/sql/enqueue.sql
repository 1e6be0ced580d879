-- Puts a backup into the queue (READ COMMITTED, no gate). The names it claims
-- are resolved by the caller, under the cluster's shared inventory lock.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
queued AS (
    INSERT INTO backups (id, cluster_id, name, phase, reason, labels, annotations, spec, location, keep_for,
                         created_at, enqueued_at, order_key, max_attempts,
                         scope, has_pattern, resolved, inventory_version, left_out, claim)
    SELECT @id, @cluster_id::int, @name, 'Queued', 'Enqueued', @labels, @annotations, @spec, @location, @keep_for,
           at, at, at, @max_attempts,
           @scope, @has_pattern, @resolved, @inventory_version, @left_out,
           CASE WHEN NOT @resolved OR @scope = 'everything' THEN claim_everything(@cluster_id::int)
                WHEN @scope = 'everything-but' THEN claim_everything(@cluster_id::int) - claim_some(@cluster_id::int, @namespace_ids)
                WHEN @scope = 'some' THEN claim_some(@cluster_id::int, @namespace_ids)
                ELSE '{}' END
      FROM instant
    RETURNING seq, cluster_id, order_key, phase, reason, attempt, wide, scope),
claimed AS (
    INSERT INTO claims (cluster_id, namespace_id, rank, order_key, seq)
    SELECT q.cluster_id, n, 1, q.order_key, q.seq FROM queued q, unnest(@namespace_ids::int[]) n
     WHERE q.scope = 'some' AND NOT q.wide),
logged AS (
    INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, attempt)
    SELECT at, q.cluster_id, q.seq, '', q.phase, q.reason, q.attempt FROM queued q, instant),
mirrored AS (
    INSERT INTO mirror_outbox (cluster_id, seq) SELECT cluster_id, seq FROM queued)
SELECT seq, pg_notify('berth_queue', cluster_id::text)::text FROM queued
