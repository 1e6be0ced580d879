-- A running backup ends: its slot, its claims and its lease are free, and the
-- first of those that waited for it are looked at again; whoever dequeues next
-- releases the others. Behind the gate.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
before AS MATERIALIZED (
    SELECT seq, phase, slot FROM backups WHERE seq = @seq AND fence = @fence AND phase = ANY (@from::text[]) FOR NO KEY UPDATE),
ended AS (
    UPDATE backups b
       SET phase = @phase, reason = @reason, message = @message, version = version + 1,
           slot = NULL, completed_at = i.at, cancel_requested_at = NULL,
           warnings = @warnings, errors = @errors, validation_errors = @validation_errors, failure_reason = @failure_reason
      FROM before o, instant i
     WHERE b.seq = o.seq
    RETURNING b.seq, b.cluster_id, b.phase, b.reason, b.message, b.worker, b.fence, b.attempt),
freed AS (DELETE FROM claims USING ended e WHERE claims.seq = e.seq),
unleased AS (DELETE FROM leases USING ended e WHERE leases.seq = e.seq),
closed AS (
    DELETE FROM slots s USING before o, ended e, clusters c
     WHERE c.id = e.cluster_id AND s.cluster_id = e.cluster_id AND s.slot = o.slot AND s.slot > c.concurrent_backups),
watchers AS (
    UPDATE backups b SET blocked_by = NULL, evaluated = false
     WHERE b.seq = ANY (ARRAY (
           -- Joined, all watchers of everybody might be read for these, and with
           -- phase = 'Queued', which backups_witness_while_queued says, the queue.
           SELECT w.seq FROM ended e CROSS JOIN LATERAL (
                  SELECT w.seq FROM backups w WHERE w.blocked_by = e.seq
                   ORDER BY w.order_key, w.seq LIMIT 128) w))
    RETURNING b.seq),
left_over AS (
    INSERT INTO departures (cluster_id, seq)
    SELECT e.cluster_id, e.seq FROM ended e WHERE (SELECT count(*) FROM watchers) = 128
    ON CONFLICT (cluster_id, seq) DO UPDATE SET order_key = '-infinity', watcher = 0),
logged AS (
    INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, message, worker, fence, attempt, slot)
    SELECT i.at, e.cluster_id, e.seq, o.phase, e.phase, e.reason, e.message, e.worker, e.fence, e.attempt, o.slot
      FROM ended e, before o, instant i),
mirrored AS (
    INSERT INTO mirror_outbox (cluster_id, seq) SELECT cluster_id, seq FROM ended)
SELECT seq, pg_notify('berth_queue', cluster_id::text)::text FROM ended
