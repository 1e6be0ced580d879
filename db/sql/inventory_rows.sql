-- All that the dictionary knows of a cluster's namespaces.
SELECT id, name, present, excluded FROM namespaces WHERE cluster_id = @cluster_id
