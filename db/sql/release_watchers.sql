-- Looks again at backups whose witness no longer stands in the queue, at most
-- 256 in key order. Behind the gate. Finds those beyond the first 256 of a
-- backup that ended, and any that a dead process left.
WITH released AS (
    UPDATE backups b SET blocked_by = NULL, blocked_since = NULL, evaluated = false
     WHERE b.seq IN (
        SELECT q.seq FROM backups q
         WHERE q.cluster_id = @cluster_id AND q.phase = 'Queued' AND q.blocked_by IS NOT NULL
           AND NOT EXISTS (SELECT FROM backups w WHERE w.seq = q.blocked_by
                AND w.phase IN ('Queued', 'ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed'))
         ORDER BY q.order_key, q.seq LIMIT 256)
    RETURNING b.seq)
SELECT count(*) FROM released
