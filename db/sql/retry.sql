-- A backup that ended is tried again: the next attempt, at the end of the queue
-- (READ COMMITTED, no gate, as an enqueue). A time that it was not to start
-- before, and one that it was to have started by, no longer count.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
before AS MATERIALIZED (
    SELECT seq, phase FROM backups WHERE seq = @seq AND phase IN ('Failed', 'PartiallyFailed', 'Canceled') FOR NO KEY UPDATE),
queued AS (
    UPDATE backups b
       SET phase = 'Queued', reason = 'Retried', message = @message, version = version + 1, attempt = attempt + 1, lost_leases = 0,
           enqueued_at = i.at, not_before = NULL, order_key = order_key_of(i.at, NULL, b.priority),
           start_deadline = CASE WHEN b.start_deadline > i.at THEN b.start_deadline END,
           fence = nextval('fences'), worker = '', ready_at = NULL, first_ready_at = NULL, started_at = NULL, completed_at = NULL, expires_at = NULL,
           cancel_requested_at = NULL, contents = NULL, contents_missing = NULL, contents_excluded = NULL,
           warnings = 0, errors = 0, validation_errors = '{}', failure_reason = '',
           evaluated = false, blocked_by = NULL, blocked_since = NULL,
           resolved = @resolved, inventory_version = @inventory_version, left_out = @left_out,
           claim = CASE WHEN NOT @resolved OR b.scope = 'everything' THEN claim_everything(b.cluster_id)
                        WHEN b.scope = 'everything-but' THEN claim_everything(b.cluster_id) - claim_some(b.cluster_id, @namespace_ids)
                        WHEN b.scope = 'some' THEN claim_some(b.cluster_id, @namespace_ids)
                        ELSE '{}' END
      FROM before o, instant i
     WHERE b.seq = o.seq
    RETURNING b.seq, b.cluster_id, b.order_key, b.phase, b.reason, b.message, b.attempt, b.wide, b.scope),
uncounted AS (DELETE FROM progress USING queued q WHERE progress.seq = q.seq),
forgotten AS (DELETE FROM predictions USING queued q WHERE predictions.seq = q.seq),
claimed AS (
    INSERT INTO claims (cluster_id, namespace_id, rank, order_key, seq)
    SELECT q.cluster_id, n, 1, q.order_key, q.seq FROM queued q, unnest(@namespace_ids::int[]) n
     WHERE q.scope = 'some' AND NOT q.wide),
logged AS (
    INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, message, attempt)
    SELECT i.at, q.cluster_id, q.seq, o.phase, q.phase, q.reason, q.message, q.attempt FROM queued q, before o, instant i),
mirrored AS (
    INSERT INTO mirror_outbox (cluster_id, seq) SELECT cluster_id, seq FROM queued)
SELECT seq, pg_notify('berth_queue', cluster_id::text)::text FROM queued
