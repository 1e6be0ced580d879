-- Makes a storage location where there is none of that name.
INSERT INTO storage_locations (cluster_id, name, url, prefix) VALUES (@cluster_id, @name, @url, @prefix)
ON CONFLICT (cluster_id, name) DO NOTHING
