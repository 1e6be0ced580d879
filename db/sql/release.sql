-- A worker gives a running backup back, in order: its old place, no attempt
-- used up; Canceled where somebody had asked for that. Behind the gate.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
before AS MATERIALIZED (
    SELECT seq, phase, slot, worker, fence, cancel_requested_at IS NOT NULL AS canceled FROM backups WHERE seq = @seq AND fence = @fence AND slot IS NOT NULL FOR NO KEY UPDATE),
released AS (
    UPDATE backups b
       SET phase = CASE WHEN o.canceled THEN 'Canceled' ELSE 'Queued' END, reason = CASE WHEN o.canceled THEN 'Canceled' ELSE 'Released' END,
           message = @message, version = version + 1,
           fence = nextval('fences'), slot = NULL, worker = '', ready_at = NULL, started_at = NULL, expires_at = NULL,
           completed_at = CASE WHEN o.canceled THEN i.at END, cancel_requested_at = NULL,
           contents = NULL, contents_missing = NULL, contents_excluded = NULL, warnings = 0, errors = 0, evaluated = false
      FROM before o, instant i WHERE b.seq = o.seq
    RETURNING b.seq, b.cluster_id, b.phase, b.reason, b.message, b.attempt, b.spec, b.order_key),
unleased AS (DELETE FROM leases USING released r WHERE leases.seq = r.seq),
uncounted AS (DELETE FROM progress USING released r WHERE progress.seq = r.seq),
waiting AS (UPDATE claims SET rank = 1 FROM released r WHERE claims.seq = r.seq AND r.phase = 'Queued'),
freed AS (DELETE FROM claims USING released r WHERE claims.seq = r.seq AND r.phase <> 'Queued'),
closed AS (
    DELETE FROM slots s USING before o, released r, clusters c
     WHERE c.id = r.cluster_id AND s.cluster_id = r.cluster_id AND s.slot = o.slot AND s.slot > c.concurrent_backups),
-- Those who are before its place and waited for it while it ran.
left_over AS (
    INSERT INTO departures (cluster_id, seq)
    SELECT r.cluster_id, r.seq FROM released r
     WHERE (SELECT r.phase <> 'Queued' OR (w.order_key, w.seq) < (r.order_key, r.seq)
              FROM backups w WHERE w.blocked_by = r.seq ORDER BY w.order_key, w.seq LIMIT 1)
    ON CONFLICT (cluster_id, seq) DO UPDATE SET order_key = '-infinity', watcher = 0),
logged AS (
    INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, message, worker, fence, attempt, slot)
    SELECT i.at, r.cluster_id, r.seq, o.phase, r.phase, r.reason, r.message, o.worker, o.fence, r.attempt, o.slot
      FROM released r, before o, instant i),
mirrored AS (
    INSERT INTO mirror_outbox (cluster_id, seq) SELECT cluster_id, seq FROM released)
SELECT seq, phase, spec, pg_notify('berth_queue', cluster_id::text)::text FROM released
