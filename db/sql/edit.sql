-- Changes a waiting backup's priority, the instant that it waits for or its
-- start deadline. Behind the gate: its place and, where it becomes New or is due
-- at once, its claim move with it. One that moves is looked at again, and so are
-- those that waited for it and that it is no longer in the way of.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
before AS MATERIALIZED (
    SELECT b.seq, b.phase, b.order_key, b.priority, b.not_before, b.start_deadline, b.retry_at FROM backups b
     WHERE b.seq = @seq AND b.phase IN ('New', 'Queued') FOR NO KEY UPDATE),
wanted AS MATERIALIZED (
    SELECT w.*, coalesce(due_at(w.not_before, w.retry_at) > i.at, false) AS later,
           (w.priority, w.not_before) IS DISTINCT FROM (w.former_priority, w.former_not_before) OR w.former_phase = 'New' AS moves
      FROM instant i, (
        SELECT o.seq, o.phase AS former_phase, o.priority AS former_priority, o.not_before AS former_not_before, o.retry_at,
               coalesce(@priority::int, o.priority) AS priority,
               CASE WHEN @edits_not_before::boolean THEN @not_before::timestamptz ELSE o.not_before END AS not_before,
               CASE WHEN @edits_start_deadline::boolean THEN @start_deadline::timestamptz ELSE o.start_deadline END AS start_deadline
          FROM before o) w),
edited AS (
    UPDATE backups b
       SET priority = w.priority, not_before = w.not_before, start_deadline = w.start_deadline,
           order_key = order_key_of(b.enqueued_at, w.not_before, w.priority),
           phase = CASE WHEN w.later THEN 'New' ELSE 'Queued' END, reason = 'Edited', message = @message, version = version + 1,
           retry_at = CASE WHEN w.later THEN w.retry_at END,
           claim = CASE WHEN w.later THEN '{}' ELSE b.claim END, resolved = b.resolved OR w.later,
           evaluated = b.evaluated AND NOT w.moves, blocked_by = CASE WHEN NOT w.later THEN b.blocked_by END,
           blocked_since = CASE WHEN NOT w.later THEN b.blocked_since END
      FROM wanted w
     WHERE b.seq = w.seq
       AND (w.priority, w.not_before, w.start_deadline) IS DISTINCT FROM (b.priority, b.not_before, b.start_deadline)
    RETURNING b.seq, b.cluster_id, b.order_key, b.phase, b.reason, b.message, b.priority, b.not_before, b.start_deadline, b.attempt, b.spec, b.blocked_by, w.moves),
moved AS (
    UPDATE claims SET order_key = e.order_key FROM edited e WHERE claims.seq = e.seq AND e.phase = 'Queued'),
freed AS (DELETE FROM claims USING edited e WHERE claims.seq = e.seq AND e.phase = 'New'),
left_over AS (
    INSERT INTO departures (cluster_id, seq)
    SELECT e.cluster_id, e.seq FROM edited e
     WHERE e.moves AND (SELECT e.phase = 'New' OR (w.order_key, w.seq) < (e.order_key, e.seq)
                          FROM backups w WHERE w.blocked_by = e.seq ORDER BY w.order_key, w.seq LIMIT 1)
    ON CONFLICT (cluster_id, seq) DO UPDATE SET order_key = '-infinity', watcher = 0),
logged AS (
    INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, message, blocker, attempt, detail)
    SELECT i.at, e.cluster_id, e.seq, w.former_phase, e.phase, e.reason, e.message, e.blocked_by, e.attempt,
           jsonb_build_object('priority', e.priority, 'notBefore', e.not_before, 'startDeadline', e.start_deadline)
      FROM edited e, wanted w, instant i),
mirrored AS (
    INSERT INTO mirror_outbox (cluster_id, seq) SELECT cluster_id, seq FROM edited)
SELECT w.seq, coalesce(e.phase, w.former_phase), w.moves, (SELECT b.spec FROM backups b WHERE b.seq = w.seq),
       coalesce(e.start_deadline <= e.not_before, false), CASE WHEN e.seq IS NOT NULL THEN pg_notify('berth_queue', e.cluster_id::text)::text END
  FROM wanted w LEFT JOIN edited e USING (seq)
