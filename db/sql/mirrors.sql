-- The backups whose object is behind: those in the outbox, and those whose
-- place among the first 20 of the queue moved. LIMIT 1 has each read by its key.
WITH behind AS (
    SELECT seq, max(id) AS through FROM (
        SELECT seq, id FROM mirror_outbox WHERE cluster_id = @cluster_id ORDER BY id LIMIT @limit * 4) o
     GROUP BY seq ORDER BY max(id) LIMIT @limit),
first_places AS (
    SELECT seq, row_number() OVER (ORDER BY order_key, seq) AS place
      FROM (SELECT seq, order_key FROM backups WHERE cluster_id = @cluster_id AND phase = 'Queued' ORDER BY order_key, seq LIMIT 20) q),
moved AS (
    SELECT f.seq FROM first_places f JOIN mirrors m USING (seq) WHERE m.queue_position <> f.place
     ORDER BY f.place LIMIT @limit),
due AS (
    SELECT seq, through FROM behind
    UNION ALL SELECT seq, 0 FROM moved WHERE seq NOT IN (SELECT seq FROM behind))
SELECT b.*, o.contents_missing, o.contents_excluded, NULL::jsonb AS artifacts, NULL::jsonb AS kinds, d.through, coalesce(m.object_uid, '') AS object_uid,
       coalesce(p.hooks_attempted, 0) AS hooks_attempted, coalesce(p.hooks_failed, 0) AS hooks_failed,
       CASE WHEN b.phase = 'Queued' THEN queue_position(b.seq) ELSE 0 END AS position,
       0::bigint AS overlapping_ahead
  FROM due d CROSS JOIN LATERAL (SELECT * FROM backup_rows r WHERE r.seq = d.seq LIMIT 1) b
  JOIN backups o ON o.seq = d.seq LEFT JOIN mirrors m ON m.seq = d.seq LEFT JOIN progress p ON p.seq = d.seq
 ORDER BY b.seq
