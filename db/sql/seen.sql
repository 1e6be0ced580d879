-- A cluster's API answered. Nobody waits for this row, and it waits for nobody:
-- where somebody changes the cluster, that one's transaction goes first.
UPDATE clusters SET seen_at = clock_timestamp()
 WHERE id = (SELECT id FROM clusters WHERE id = @cluster_id FOR NO KEY UPDATE SKIP LOCKED)
