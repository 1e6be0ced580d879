-- Waiting backups end without having run. Behind the gate. Those that waited for
-- them are released by the next dequeues.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
before AS MATERIALIZED (
    SELECT seq, phase FROM backups WHERE seq = ANY (@seqs::bigint[]) AND phase IN ('New', 'Queued') ORDER BY seq FOR NO KEY UPDATE),
ended AS (
    UPDATE backups b
       SET phase = @phase, reason = @reason, message = @message, failure_reason = @failure_reason, version = version + 1,
           completed_at = i.at, retry_at = NULL, blocked_by = NULL, blocked_since = NULL, evaluated = false
      FROM before o, instant i
     WHERE b.seq = o.seq
    RETURNING b.seq, b.cluster_id, b.phase, b.reason, b.message, b.attempt),
freed AS (DELETE FROM claims USING ended e WHERE claims.seq = e.seq),
left_over AS (
    INSERT INTO departures (cluster_id, seq)
    SELECT e.cluster_id, e.seq FROM ended e WHERE (SELECT true FROM backups w WHERE w.blocked_by = e.seq LIMIT 1)
    ON CONFLICT (cluster_id, seq) DO UPDATE SET order_key = '-infinity', watcher = 0),
logged AS (
    INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, message, attempt)
    SELECT i.at, e.cluster_id, e.seq, o.phase, e.phase, e.reason, e.message, e.attempt FROM ended e JOIN before o USING (seq), instant i),
mirrored AS (
    INSERT INTO mirror_outbox (cluster_id, seq) SELECT cluster_id, seq FROM ended ORDER BY seq),
told AS (SELECT pg_notify('berth_queue', cluster_id::text) FROM (SELECT cluster_id FROM ended LIMIT 1) any_ended)
SELECT (SELECT count(*) FROM ended), (SELECT count(*) FROM told)
