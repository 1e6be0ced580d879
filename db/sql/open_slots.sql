-- The places of a limit that is to be. Nobody takes one above the limit that is:
-- they need no gate, however many they are. A change that was made for other
-- settings opens none.
INSERT INTO slots (cluster_id, slot)
SELECT c.id, n FROM clusters c, generate_series(1, @limit::int) n
 WHERE c.id = @cluster_id AND (@if_version::bigint IS NULL OR c.settings_version = @if_version::bigint)
   AND NOT EXISTS (SELECT FROM slots s WHERE s.cluster_id = c.id AND s.slot = n)
ON CONFLICT DO NOTHING
