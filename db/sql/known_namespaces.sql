-- The namespaces that are needed: with @everyone all that the cluster has, and those
-- that are named. The dictionary has every name that a backup ever mentioned: what
-- is absent and not named is not read. Two arms, so that a kept plan reads the few
-- by their names.
SELECT id, name, present, excluded FROM namespaces WHERE cluster_id = @cluster_id AND present AND @everyone
UNION ALL
SELECT id, name, present, excluded FROM namespaces WHERE cluster_id = @cluster_id AND name = ANY (@names::text[]) AND NOT (present AND @everyone)
