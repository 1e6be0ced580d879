-- Whether a dequeue would find anything to look at: a backup that nobody has
-- looked at since it may have changed, or, with a place for it, one that nothing
-- is known to be in the way of, or, without room, those to look at again. Whether
-- a backup may wait for one that is no longer in its way. And whether the clock
-- or somebody's silence changed something. (EXISTS would read the table from its
-- oldest row on; and what is compared with the clock itself, by no index.)
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at)
SELECT (SELECT true FROM backups WHERE cluster_id = c.id AND fresh
         ORDER BY order_key, seq LIMIT 1) IS NOT NULL
       OR @want::int = 0 AND EXISTS (SELECT FROM relooks WHERE cluster_id = c.id)
       OR @want::int > 0
       AND NOT is_paused(c, (SELECT at FROM instant))
       AND (SELECT count(*) FROM backups WHERE cluster_id = c.id AND slot IS NOT NULL) < c.concurrent_backups
       AND EXISTS (
           SELECT FROM storage_locations l CROSS JOIN (VALUES (false), (true)) s (needs_inventory) CROSS JOIN LATERAL (
                  SELECT FROM backups b
                   WHERE b.cluster_id = c.id AND b.location = l.name AND b.needs_inventory = s.needs_inventory AND b.known
                   ORDER BY b.order_key, b.seq LIMIT 1) first
            WHERE l.cluster_id = c.id AND l.available AND (NOT s.needs_inventory OR is_reachable(c, (SELECT at FROM instant)))) AS candidates,
       EXISTS (SELECT FROM departures WHERE cluster_id = c.id) AS departures,
       c.paused_until <= (SELECT at FROM instant) IS TRUE
       OR c.has_worker <> has_live_worker(c.id, (SELECT at FROM instant))
       OR c.reachable <> is_reachable(c, (SELECT at FROM instant))
       OR EXISTS (SELECT FROM amendments WHERE cluster_id = c.id)
       OR EXISTS (SELECT FROM backups WHERE cluster_id = c.id AND phase = 'New' AND due_at(not_before, retry_at) <= (SELECT at FROM instant))
       OR EXISTS (SELECT FROM backups
                   WHERE cluster_id = c.id AND phase IN ('New', 'Queued') AND first_ready_at IS NULL AND start_deadline <= (SELECT at FROM instant)) AS turned
  FROM clusters c WHERE c.id = @cluster_id
