-- Makes a storage location where there is none of that name. Of several at once
-- one wins; the others may meet either of the table's keys first.
INSERT INTO storage_locations (cluster_id, name, url, prefix) VALUES (@cluster_id, @name, @url, @prefix)
ON CONFLICT DO NOTHING
