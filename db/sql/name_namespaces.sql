-- Names namespaces that the dictionary does not have, in sorted order, so that
-- two who name the same ones never wait for each other in a circle. Only the
-- missing ones are tried: a conflict would use up an id.
INSERT INTO namespaces (cluster_id, name)
SELECT @cluster_id, wanted FROM unnest(@names::text[]) wanted
 WHERE NOT EXISTS (SELECT FROM namespaces n WHERE n.cluster_id = @cluster_id AND n.name = wanted)
 ORDER BY wanted
ON CONFLICT DO NOTHING
