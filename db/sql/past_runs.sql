-- What the last runs that ended with an archive took, newest first.
SELECT labels, extract(epoch FROM completed_at - ready_at)::float8 AS seconds,
       ARRAY (SELECT jsonb_array_elements_text(spec -> 'includedNamespaces')) AS included,
       ARRAY (SELECT jsonb_array_elements_text(spec -> 'excludedNamespaces')) AS excluded
  FROM backups
 WHERE cluster_id = @cluster_id AND phase IN ('Completed', 'PartiallyFailed') AND ready_at IS NOT NULL
 ORDER BY completed_at DESC LIMIT 1000
