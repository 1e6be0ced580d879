-- Other limits. Places above a lowered limit go as soon as nobody holds them
-- (close_slots.sql); running backups go on. Behind the gate, where nobody else changes them; an
-- enqueue's reference to the cluster does not keep it waiting.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
former AS MATERIALIZED (
    SELECT id, concurrent_backups, item_block_worker_count, max_queued FROM clusters
     WHERE id = @cluster_id AND (@if_version::bigint IS NULL OR settings_version = @if_version::bigint) FOR NO KEY UPDATE),
wanted AS MATERIALIZED (
    SELECT id, coalesce(@concurrent_backups::int, concurrent_backups) AS concurrent_backups,
           coalesce(@item_block_worker_count::int, item_block_worker_count) AS item_block_worker_count,
           CASE WHEN @edits_max_queued::boolean THEN @max_queued::int ELSE max_queued END AS max_queued
      FROM former),
changed AS (
    UPDATE clusters c SET concurrent_backups = w.concurrent_backups, item_block_worker_count = w.item_block_worker_count,
           max_queued = w.max_queued, settings_version = settings_version + 1,
           limited_at = CASE WHEN w.concurrent_backups < f.concurrent_backups
                              AND (SELECT count(*) FROM backups b WHERE b.cluster_id = c.id AND b.slot IS NOT NULL) < f.concurrent_backups
                             THEN i.at ELSE c.limited_at END
      FROM wanted w, former f, instant i
     WHERE c.id = w.id AND (w.concurrent_backups, w.item_block_worker_count, coalesce(w.max_queued, 0))
                        <> (f.concurrent_backups, f.item_block_worker_count, coalesce(f.max_queued, 0))
    RETURNING c.id, c.concurrent_backups, c.item_block_worker_count, c.max_queued),
opened AS (
    -- Hardly ever any: most are there before (open_slots.sql).
    INSERT INTO slots (cluster_id, slot)
    SELECT c.id, n FROM changed c, generate_series(1, c.concurrent_backups) n
     WHERE NOT EXISTS (SELECT FROM slots s WHERE s.cluster_id = c.id AND s.slot = n)
    ON CONFLICT DO NOTHING),
logged AS (
    INSERT INTO events (at, cluster_id, reason, message, detail)
    SELECT i.at, c.id, 'LimitChanged', format('%s from %s to %s', s.setting, coalesce(s.former::text, 'no cap'), coalesce(s.now::text, 'no cap')),
           jsonb_build_object('setting', s.setting, 'from', s.former, 'to', s.now)
      FROM instant i, changed c, former f, LATERAL (VALUES
           ('concurrentBackups', f.concurrent_backups, c.concurrent_backups),
           ('itemBlockWorkerCount', f.item_block_worker_count, c.item_block_worker_count),
           ('maxQueued', f.max_queued, c.max_queued)) s (setting, former, now)
     WHERE s.former IS DISTINCT FROM s.now)
SELECT (SELECT count(*) FROM former), (SELECT count(pg_notify('berth_queue', id::text)) FROM changed)
