-- The running backups of a cluster by their slots; LIMIT 1 has each read by its key.
SELECT b.*, r.contents_missing, r.contents_excluded, NULL::jsonb AS artifacts, NULL::jsonb AS kinds, 0::bigint AS position, 0::bigint AS overlapping_ahead
  FROM backups r CROSS JOIN LATERAL (SELECT * FROM backup_rows b WHERE b.seq = r.seq LIMIT 1) b
 WHERE r.cluster_id = @cluster_id AND r.slot IS NOT NULL
 ORDER BY r.slot
