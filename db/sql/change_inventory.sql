-- Writes namespaces as the cluster has them now. Behind the gate and the
-- exclusive inventory lock.
INSERT INTO namespaces (cluster_id, name, present, excluded)
SELECT @cluster_id, changed.name, changed.present, changed.excluded
  FROM unnest(@names::text[], @present::boolean[], @excluded::boolean[]) AS changed (name, present, excluded)
 ORDER BY changed.name
ON CONFLICT (cluster_id, name) DO UPDATE SET present = excluded.present, excluded = excluded.excluded
