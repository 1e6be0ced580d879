-- The post hooks of a pod have ended, says the worker that has the fence. A pod
-- that was ended before counts as ended now.
WITH running AS MATERIALIZED (
    SELECT seq FROM backups WHERE seq = @seq AND fence = @fence AND slot IS NOT NULL FOR NO KEY UPDATE),
thawed AS (
    DELETE FROM frozen_pods f USING running r WHERE f.seq = r.seq AND f.uid = @uid)
SELECT seq FROM running
