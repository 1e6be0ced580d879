-- What of a whole cluster admission decides on.
SELECT i.at, c.concurrent_backups, is_paused(c, i.at) AS paused, c.pause_reason, c.paused_by, c.paused_since, c.paused_until,
       has_live_worker(c.id, i.at) AS has_worker, is_reachable(c, i.at) AS reachable, c.inventory_synced_at IS NOT NULL AS synced,
       w.max_backups AS workers_max_backups, w.room AS workers_room,
       ARRAY (SELECT l.name FROM storage_locations l WHERE l.cluster_id = c.id AND NOT l.available) AS unavailable
  FROM clusters c CROSS JOIN (SELECT clock_timestamp() AS at) i CROSS JOIN LATERAL worker_room(c.id, i.at) w
 WHERE c.id = @cluster_id
