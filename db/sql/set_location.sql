INSERT INTO storage_locations (cluster_id, name, url, prefix) VALUES (@cluster_id, @name, @url, @prefix)
ON CONFLICT (cluster_id, name) DO UPDATE SET url = excluded.url, prefix = excluded.prefix
