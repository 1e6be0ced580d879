-- The clusters that have a lease to reap.
SELECT c.name FROM clusters c
 WHERE EXISTS (SELECT FROM leases l WHERE l.cluster_id = c.id AND l.expires_at < clock_timestamp() - @grace::interval)
 ORDER BY c.id
