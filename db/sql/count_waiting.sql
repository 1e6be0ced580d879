-- How many backups of a cluster wait, counted to the cap at most. Those who ask
-- for one more take turns, so that the cap is exact.
SELECT (SELECT count(*) FROM (
            SELECT FROM backups WHERE cluster_id = @cluster_id AND phase = 'Queued' LIMIT @cap) queued)
     + (SELECT count(*) FROM (
            SELECT FROM backups WHERE cluster_id = @cluster_id AND phase = 'New' LIMIT @cap) later)
