-- The namespaces that a scope may need: all of the cluster's, or those named.
SELECT id, name, present, excluded FROM namespaces
 WHERE cluster_id = @cluster_id AND (@everyone OR name = ANY (@names::text[]))
