-- Backups are admitted again. Behind the gate.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
resumed AS (
    UPDATE clusters c
       SET paused_since = NULL, paused_until = NULL, pause_reason = '', paused_by = '', settings_version = settings_version + 1
     WHERE c.id = @cluster_id AND c.paused_since IS NOT NULL
    RETURNING c.id),
logged AS (
    INSERT INTO events (at, cluster_id, reason, message, detail)
    SELECT i.at, r.id, 'QueueResumed', '', jsonb_build_object('by', @by::text) FROM resumed r, instant i)
SELECT count(pg_notify('berth_queue', id::text)) FROM resumed
