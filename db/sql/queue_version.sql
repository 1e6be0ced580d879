-- When the queue was looked at, and its newest event.
SELECT clock_timestamp() AS at, coalesce((SELECT max(id) FROM events WHERE cluster_id = @cluster_id), 0) AS version
