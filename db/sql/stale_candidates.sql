-- Candidates whose claim was resolved against an older inventory than the
-- cluster has. Behind the gate.
SELECT b.seq, b.spec FROM backups b JOIN clusters c ON c.id = b.cluster_id
 WHERE b.cluster_id = @cluster_id AND b.phase = 'Queued' AND b.blocked_by IS NULL
   AND b.has_pattern AND b.inventory_version <> c.inventory_version
 ORDER BY b.order_key, b.seq LIMIT @budget
   FOR NO KEY UPDATE OF b SKIP LOCKED
