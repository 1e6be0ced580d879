-- Whether a dequeue would find anything to look at: a backup that nobody has
-- looked at since it may have changed, or, with a place for it, one that nothing
-- is known to be in the way of. And whether a backup may wait for one that is no
-- longer in its way. (EXISTS would read the table from its oldest row on.)
SELECT (SELECT true FROM backups
         WHERE cluster_id = @cluster_id AND phase = 'Queued' AND blocked_by IS NULL AND resolved AND NOT evaluated
         ORDER BY order_key, seq LIMIT 1) IS NOT NULL
       OR @want > 0
       AND (SELECT count(*) FROM backups WHERE cluster_id = @cluster_id AND slot IS NOT NULL)
           < (SELECT concurrent_backups FROM clusters WHERE id = @cluster_id)
       AND (SELECT true FROM backups
             WHERE cluster_id = @cluster_id AND phase = 'Queued' AND blocked_by IS NULL AND resolved AND evaluated
             ORDER BY order_key, seq LIMIT 1) IS NOT NULL AS candidates,
       EXISTS (SELECT FROM departures WHERE cluster_id = @cluster_id) AS departures
