-- Ends attempts that came to nothing. Those are the backups whose lease ran out
-- more than a grace ago; or, where @seq is not 0, the one that its worker gives up,
-- since what it needs is away. They go back to their old place in the queue, from
-- the second lost attempt on, and where one is given up from the first on, after a
-- back-off that doubles; Failed where that was the last of their attempts, Canceled
-- where somebody had asked for that. Behind the gate. The lease's row is locked
-- too: a worker that is told that it renewed keeps what it renewed.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
expired AS MATERIALIZED (
    SELECT b.seq, b.phase, b.slot, b.fence, b.worker, b.attempt,
           CASE WHEN b.cancel_requested_at IS NOT NULL THEN 'Canceled'
                WHEN b.lost_leases + 1 >= b.max_attempts THEN 'Failed'
                WHEN b.lost_leases > 0 OR @seq::bigint <> 0 THEN 'New'
                ELSE 'Queued' END AS next,
           b.cancel_requested_at IS NOT NULL OR b.lost_leases + 1 >= b.max_attempts AS last
      FROM leases l JOIN backups b USING (seq), instant i
     WHERE l.cluster_id = @cluster_id AND b.fence = l.fence AND b.slot IS NOT NULL
       AND CASE WHEN @seq::bigint = 0 THEN l.expires_at < i.at - @grace::interval ELSE b.seq = @seq AND b.fence = @fence END
     ORDER BY b.seq LIMIT 100
       FOR NO KEY UPDATE OF b, l),
taken AS (
    UPDATE backups b
       SET phase = x.next,
           reason = @reason,
           message = CASE WHEN @seq::bigint = 0 THEN format('worker %s was silent for longer than its lease in attempt %s', x.worker, x.attempt)
                          ELSE @message END,
           failure_reason = CASE WHEN x.next <> 'Failed' THEN ''
                                 WHEN @seq::bigint = 0 THEN format('LeaseLost: %s of %s attempts lost their worker, the last one %s',
                                                                       b.lost_leases + 1, b.max_attempts, x.worker)
                                 ELSE format('%s: %s (attempt %s, %s of %s lost)', @reason::text, @message::text, x.attempt,
                                             b.lost_leases + 1, b.max_attempts) END,
           version = version + 1, fence = nextval('fences'), slot = NULL,
           lost_leases = lost_leases + 1,
           attempt = CASE WHEN x.last THEN b.attempt ELSE b.attempt + 1 END,
           worker = CASE WHEN x.last THEN b.worker ELSE '' END,
           ready_at = CASE WHEN x.last THEN b.ready_at END,
           started_at = CASE WHEN x.last THEN b.started_at END,
           expires_at = CASE WHEN x.last THEN b.expires_at END,
           contents = CASE WHEN x.last THEN b.contents END,
           contents_missing = CASE WHEN x.last THEN b.contents_missing END,
           contents_excluded = CASE WHEN x.last THEN b.contents_excluded END,
           completed_at = CASE WHEN x.last THEN i.at END,
           -- Half of it by chance, so that what was lost together does not come back together.
           retry_at = CASE WHEN x.next = 'New'
                           THEN i.at + least(@backoff::interval * (2 ^ greatest(b.lost_leases - 1, 0)), @max_backoff::interval) * (0.5 + random() / 2) END,
           claim = CASE WHEN x.next = 'New' THEN '{}' ELSE b.claim END,
           resolved = b.resolved OR x.next = 'New',
           cancel_requested_at = NULL, warnings = 0, errors = 0, evaluated = false
      FROM expired x, instant i
     WHERE b.seq = x.seq
    RETURNING b.seq, b.cluster_id, b.phase, b.reason, b.message, b.spec, b.order_key),
unleased AS (DELETE FROM leases USING taken t WHERE leases.seq = t.seq),
uncounted AS (DELETE FROM progress USING taken t WHERE progress.seq = t.seq AND t.phase IN ('Queued', 'New')),
waiting AS (UPDATE claims SET rank = 1 FROM taken t WHERE claims.seq = t.seq AND t.phase = 'Queued'),
freed AS (DELETE FROM claims USING taken t WHERE claims.seq = t.seq AND t.phase <> 'Queued'),
closed AS (
    DELETE FROM slots s USING expired x, taken t, clusters c
     WHERE x.seq = t.seq AND c.id = t.cluster_id AND s.cluster_id = t.cluster_id AND s.slot = x.slot AND s.slot > c.concurrent_backups),
-- Those who waited for one that is out of the queue, or before its old place.
left_over AS (
    INSERT INTO departures (cluster_id, seq)
    SELECT t.cluster_id, t.seq FROM taken t
     WHERE (SELECT t.phase <> 'Queued' OR (w.order_key, w.seq) < (t.order_key, t.seq)
              FROM backups w WHERE w.blocked_by = t.seq ORDER BY w.order_key, w.seq LIMIT 1)
    ON CONFLICT (cluster_id, seq) DO UPDATE SET order_key = '-infinity', watcher = 0),
logged AS (
    INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, message, worker, fence, attempt, slot)
    SELECT i.at, t.cluster_id, t.seq, x.phase, t.phase, t.reason, t.message, x.worker, x.fence, x.attempt, x.slot
      FROM taken t JOIN expired x USING (seq), instant i),
mirrored AS (
    INSERT INTO mirror_outbox (cluster_id, seq) SELECT cluster_id, seq FROM taken),
told AS (SELECT pg_notify('berth_queue', @cluster_id::int::text) FROM (SELECT FROM taken LIMIT 1) any_taken)
SELECT t.seq, t.phase, t.spec FROM taken t, (SELECT count(*) FROM told) notified
