-- Writes namespaces as the cluster has them now. Behind the gate and the
-- exclusive inventory lock, so that nobody names one meanwhile. Only new names
-- are inserted: a conflict would use up an id.
WITH changed AS MATERIALIZED (
    SELECT * FROM unnest(@names::text[], @present::boolean[], @excluded::boolean[]) AS c (name, present, excluded)),
known AS (
    UPDATE namespaces n SET present = c.present, excluded = c.excluded
      FROM changed c WHERE n.cluster_id = @cluster_id AND n.name = c.name
    RETURNING n.name)
INSERT INTO namespaces (cluster_id, name, present, excluded)
SELECT @cluster_id, c.name, c.present, c.excluded FROM changed c
 WHERE c.name NOT IN (SELECT name FROM known)
 ORDER BY c.name
