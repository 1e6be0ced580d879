-- Nothing is admitted from now on. Behind the gate. To pause once more changes
-- why, by whom and until when, not since when.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
former AS MATERIALIZED (SELECT * FROM clusters WHERE id = @cluster_id FOR NO KEY UPDATE),
paused AS (
    UPDATE clusters c
       SET paused_since = CASE WHEN is_paused(c, i.at) THEN c.paused_since ELSE i.at END,
           paused_until = @until::timestamptz, pause_reason = @reason, paused_by = @by, settings_version = c.settings_version + 1
      FROM former f, instant i
     WHERE c.id = f.id AND (NOT is_paused(c, i.at) OR (c.pause_reason, c.paused_by) <> (@reason, @by) OR c.paused_until IS DISTINCT FROM @until::timestamptz)
    RETURNING c.*)
INSERT INTO events (at, cluster_id, reason, message, detail)
SELECT i.at, p.id, 'QueuePaused', p.pause_reason, jsonb_build_object('by', p.paused_by, 'until', p.paused_until) FROM paused p, instant i
