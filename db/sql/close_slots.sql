-- Takes away the next places above the limit that nobody holds. Behind the gate,
-- where no limit changes.
WITH closed AS (
    DELETE FROM slots WHERE cluster_id = @cluster_id AND slot IN (
        SELECT s.slot FROM slots s
         WHERE s.cluster_id = @cluster_id AND s.slot > (SELECT concurrent_backups FROM clusters WHERE id = @cluster_id)
           AND NOT EXISTS (SELECT FROM backups b WHERE b.cluster_id = @cluster_id AND b.slot = s.slot)
         ORDER BY s.slot LIMIT @most)
    RETURNING slot)
SELECT count(*) FROM closed
