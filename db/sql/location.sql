SELECT name, url, prefix, read_only, available, message FROM storage_locations WHERE cluster_id = @cluster_id AND name = @name
