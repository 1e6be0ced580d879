-- ReadyToStart to InProgress, by the worker that has the fence.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
started AS (
    UPDATE backups b SET phase = 'InProgress', reason = 'Started', version = version + 1, started_at = i.at
      FROM instant i
     WHERE b.seq = @seq AND b.fence = @fence AND b.phase = 'ReadyToStart'
    RETURNING b.*),
counted AS (
    INSERT INTO progress (seq, fence, updated_at) SELECT s.seq, s.fence, i.at FROM started s, instant i
    ON CONFLICT (seq) DO UPDATE SET fence = excluded.fence, items_backed_up = 0, total_items = 0, bytes = 0, hooks_attempted = 0, hooks_failed = 0, updated_at = excluded.updated_at),
logged AS (
    INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, worker, fence, attempt, slot)
    SELECT i.at, s.cluster_id, s.seq, 'ReadyToStart', s.phase, s.reason, s.worker, s.fence, s.attempt, s.slot FROM started s, instant i),
mirrored AS (
    INSERT INTO mirror_outbox (cluster_id, seq) SELECT cluster_id, seq FROM started)
SELECT seq, pg_notify('berth_mirror', cluster_id::text)::text FROM started
