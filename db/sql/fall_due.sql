-- New backups whose time has come enter the queue, at the place that they were
-- given when they were asked for. Behind the gate; their claims come next.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
due AS MATERIALIZED (
    SELECT seq, retry_at IS NOT NULL AS after_back_off FROM backups
     WHERE cluster_id = @cluster_id AND phase = 'New' AND due_at(not_before, retry_at) <= (SELECT at FROM instant)
     ORDER BY due_at(not_before, retry_at), seq LIMIT 256
       FOR NO KEY UPDATE),
queued AS (
    UPDATE backups b
       SET phase = 'Queued', reason = 'Due', message = CASE WHEN d.after_back_off THEN 'the back-off is over' ELSE '' END,
           version = version + 1, retry_at = NULL, evaluated = false
      FROM due d WHERE b.seq = d.seq
    RETURNING b.seq, b.cluster_id, b.phase, b.reason, b.message, b.attempt, b.spec),
logged AS (
    INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, message, attempt)
    SELECT i.at, q.cluster_id, q.seq, 'New', q.phase, q.reason, q.message, q.attempt FROM queued q, instant i),
mirrored AS (
    INSERT INTO mirror_outbox (cluster_id, seq) SELECT cluster_id, seq FROM queued ORDER BY seq),
told AS (SELECT pg_notify('berth_queue', @cluster_id::int::text) FROM (SELECT FROM queued LIMIT 1) any_queued)
SELECT q.seq, q.spec FROM queued q, (SELECT count(*) FROM told) notified
