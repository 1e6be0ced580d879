-- Whether a backup may wait for one that is no longer in its way.
SELECT EXISTS (SELECT FROM departures WHERE cluster_id = @cluster_id)
