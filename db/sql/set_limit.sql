-- Another limit. Slots above it go as soon as nobody holds them; running
-- backups go on. Behind the gate, where nobody else changes the limit; an
-- enqueue's reference to the cluster does not keep it waiting.
WITH changed AS (
    UPDATE clusters c SET concurrent_backups = @limit::int
      FROM (SELECT id, concurrent_backups FROM clusters WHERE id = @cluster_id FOR NO KEY UPDATE) o
     WHERE c.id = o.id AND o.concurrent_backups <> @limit::int
    RETURNING c.id, o.concurrent_backups AS former),
opened AS (
    INSERT INTO slots (cluster_id, slot) SELECT c.id, n FROM changed c, generate_series(1, @limit::int) n ON CONFLICT DO NOTHING),
closed AS (
    DELETE FROM slots s USING changed c
     WHERE s.cluster_id = c.id AND s.slot > @limit::int
       AND NOT EXISTS (SELECT FROM backups b WHERE b.cluster_id = s.cluster_id AND b.slot = s.slot)),
logged AS (
    INSERT INTO events (at, cluster_id, reason, message)
    SELECT clock_timestamp(), c.id, 'LimitChanged', format('concurrentBackups from %s to %s', c.former, @limit::int) FROM changed c)
SELECT count(*), (SELECT pg_notify('berth_queue', @cluster_id::int::text) FROM changed)::text FROM changed
