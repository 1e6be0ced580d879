-- Takes or keeps the lead of a cluster's mirror.
INSERT INTO mirror_leaders AS l (cluster_id, holder, expires_at)
VALUES (@cluster_id, @holder, clock_timestamp() + @ttl::interval)
ON CONFLICT (cluster_id) DO UPDATE
   SET holder = excluded.holder, expires_at = excluded.expires_at,
       term = l.term + CASE WHEN l.holder = excluded.holder THEN 0 ELSE 1 END
 WHERE l.holder = excluded.holder OR l.expires_at < clock_timestamp()
RETURNING term
