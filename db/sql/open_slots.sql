-- The places of a limit that is to be. Nobody takes one above the limit that is:
-- they need no gate, however many they are.
INSERT INTO slots (cluster_id, slot)
SELECT @cluster_id, n FROM generate_series(1, @limit::int) n
 WHERE NOT EXISTS (SELECT FROM slots s WHERE s.cluster_id = @cluster_id AND s.slot = n)
ON CONFLICT DO NOTHING
