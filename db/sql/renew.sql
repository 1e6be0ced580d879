-- Renews all of a worker's leases and the worker itself, and gives back those
-- that are still its own. The rows are locked in the order in which the reaper
-- locks them. A worker that was silent for longer than its lease starts anew.
WITH alive AS (
    INSERT INTO workers (id, cluster_id, max_backups, expires_at) VALUES (@worker, @cluster_id, @max_backups, clock_timestamp() + @ttl::interval)
    ON CONFLICT (id) DO UPDATE SET cluster_id = excluded.cluster_id, max_backups = excluded.max_backups, expires_at = excluded.expires_at,
        renewed_at = excluded.renewed_at,
        started_at = CASE WHEN workers.expires_at > excluded.started_at AND workers.cluster_id = excluded.cluster_id
                          THEN workers.started_at ELSE excluded.started_at END),
own AS MATERIALIZED (
    SELECT l.seq FROM leases l JOIN unnest(@seqs::bigint[], @fences::bigint[]) AS held (seq, fence) USING (seq, fence)
     ORDER BY l.seq FOR NO KEY UPDATE OF l),
renewed AS (
    UPDATE leases l SET expires_at = clock_timestamp() + @ttl::interval FROM own WHERE l.seq = own.seq
    RETURNING l.seq)
SELECT seq FROM renewed
