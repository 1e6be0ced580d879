-- Adds a cluster that is not there: trying it again uses no id up.
WITH added AS (
    INSERT INTO clusters (name) SELECT @name WHERE NOT EXISTS (SELECT FROM clusters WHERE name = @name)
    ON CONFLICT DO NOTHING RETURNING id)
INSERT INTO slots (cluster_id, slot) SELECT id, 1 FROM added
