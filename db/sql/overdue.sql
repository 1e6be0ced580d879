-- The waiting backups that were not first admitted by their start deadline.
SELECT seq FROM backups
 WHERE cluster_id = @cluster_id AND phase IN ('New', 'Queued') AND first_ready_at IS NULL AND start_deadline <= clock_timestamp()
 ORDER BY start_deadline LIMIT 256
