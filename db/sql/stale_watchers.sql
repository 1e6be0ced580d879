-- Whether a backup waits for one that no longer stands in the queue.
SELECT EXISTS (
    SELECT FROM backups q
     WHERE q.cluster_id = @cluster_id AND q.phase = 'Queued' AND q.blocked_by IS NOT NULL
       AND NOT EXISTS (SELECT FROM backups w WHERE w.seq = q.blocked_by
            AND w.phase IN ('Queued', 'ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')))
