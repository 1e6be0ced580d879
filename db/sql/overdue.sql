-- The waiting backups that were not first admitted by their start deadline. (What
-- is compared with the clock itself, and not with one instant, is read by no index.)
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at)
SELECT seq FROM backups
 WHERE cluster_id = @cluster_id AND phase IN ('New', 'Queued') AND first_ready_at IS NULL AND start_deadline <= (SELECT at FROM instant)
 ORDER BY start_deadline LIMIT 256
