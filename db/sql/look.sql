-- Whether a dequeue would find anything to look at: any backup that nothing is
-- known to be in the way of, or only those that nobody has looked at yet. And
-- whether a backup may wait for one that is no longer in its way.
SELECT EXISTS (SELECT FROM backups
                WHERE cluster_id = @cluster_id AND phase = 'Queued' AND blocked_by IS NULL AND resolved
                  AND (@all OR NOT evaluated)) AS candidates,
       EXISTS (SELECT FROM departures WHERE cluster_id = @cluster_id) AS departures
