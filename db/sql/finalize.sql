-- InProgress to Finalizing or FinalizingPartiallyFailed: all items are in the
-- archive, what the backup counts is final.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
finalizing AS (
    UPDATE backups b SET phase = @phase, reason = 'Finalizing', version = version + 1, warnings = @warnings, errors = @errors
     WHERE b.seq = @seq AND b.fence = @fence AND b.phase = 'InProgress'
    RETURNING b.*),
counted AS (
    UPDATE progress p SET items_backed_up = @items, total_items = @total, bytes = @bytes, hooks_attempted = @hooks_attempted, hooks_failed = @hooks_failed,
           updated_at = i.at
      FROM finalizing f, instant i WHERE p.seq = f.seq AND p.fence = f.fence),
archived AS (
    INSERT INTO archives (seq, fence, artifacts, kinds) SELECT f.seq, f.fence, @artifacts, @kinds FROM finalizing f
    ON CONFLICT (seq) DO UPDATE SET fence = excluded.fence, artifacts = excluded.artifacts, kinds = excluded.kinds),
logged AS (
    INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, worker, fence, attempt, slot)
    SELECT i.at, f.cluster_id, f.seq, 'InProgress', f.phase, f.reason, f.worker, f.fence, f.attempt, f.slot FROM finalizing f, instant i),
mirrored AS (
    INSERT INTO mirror_outbox (cluster_id, seq) SELECT cluster_id, seq FROM finalizing)
SELECT seq, pg_notify('berth_mirror', cluster_id::text)::text FROM finalizing
