-- The pre hooks of a pod begin, says the worker that has the fence.
WITH running AS MATERIALIZED (
    SELECT seq, attempt FROM backups WHERE seq = @seq AND fence = @fence AND slot IS NOT NULL FOR NO KEY UPDATE)
INSERT INTO frozen_pods (seq, namespace, name, uid, attempt, since)
SELECT seq, @namespace, @name, @uid, attempt, clock_timestamp() FROM running
ON CONFLICT (seq, uid) DO UPDATE SET attempt = excluded.attempt, since = excluded.since
