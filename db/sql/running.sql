-- The running backups of a cluster by their slots.
SELECT b.*, 0::bigint AS position, 0::bigint AS overlapping_ahead
  FROM backup_rows b
 WHERE b.cluster_id = @cluster_id AND b.slot IS NOT NULL
 ORDER BY b.slot
