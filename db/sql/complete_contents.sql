-- A running backup's contents, where its worker found namespaces that the inventory
-- had not heard of when it was admitted. The spec names them, so they are claimed.
UPDATE backups b
   SET contents = ARRAY (SELECT DISTINCT n FROM (SELECT unnest(b.contents) UNION ALL
                         SELECT m FROM unnest(b.contents_missing) m WHERE m = ANY (@present::text[])) c (n) ORDER BY n),
       contents_excluded = ARRAY (SELECT DISTINCT n FROM (SELECT unnest(b.contents_excluded) UNION ALL
                         SELECT m FROM unnest(b.contents_missing) m WHERE m = ANY (@excluded::text[])) c (n) ORDER BY n),
       contents_missing = ARRAY (SELECT m FROM unnest(b.contents_missing) m WHERE m <> ALL (@present::text[] || @excluded::text[]) ORDER BY m)
 WHERE b.seq = @seq AND b.fence = @fence AND b.slot IS NOT NULL
RETURNING contents, contents_missing, contents_excluded
