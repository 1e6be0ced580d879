WITH added AS (
    INSERT INTO clusters (name) VALUES (@name) ON CONFLICT DO NOTHING RETURNING id)
INSERT INTO slots (cluster_id, slot) SELECT id, 1 FROM added
