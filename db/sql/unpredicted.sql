-- Queued backups of the first so many that no start was predicted for yet.
SELECT q.seq, q.id FROM (
    SELECT seq, id FROM backups WHERE cluster_id = @cluster_id AND phase = 'Queued' ORDER BY order_key, seq LIMIT @depth) q
 WHERE NOT EXISTS (SELECT FROM predictions p WHERE p.seq = q.seq)
