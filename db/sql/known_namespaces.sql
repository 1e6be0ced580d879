-- The namespaces that a scope may need: all of the cluster's, or those named. Two
-- arms, so that a kept plan does not read all of them for a few.
SELECT id, name, present, excluded FROM namespaces WHERE cluster_id = @cluster_id AND @everyone
UNION ALL
SELECT id, name, present, excluded FROM namespaces WHERE cluster_id = @cluster_id AND NOT @everyone AND name = ANY (@names::text[])
