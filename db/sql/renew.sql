-- Renews all of a worker's leases and the worker itself, and gives back those
-- that are still its own.
WITH alive AS (
    INSERT INTO workers (id, cluster_id, expires_at) VALUES (@worker, @cluster_id, clock_timestamp() + @ttl::interval)
    ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at),
renewed AS (
    UPDATE leases l SET expires_at = clock_timestamp() + @ttl::interval
      FROM unnest(@seqs::bigint[], @fences::bigint[]) AS held (seq, fence)
     WHERE l.seq = held.seq AND l.fence = held.fence
    RETURNING l.seq)
SELECT seq FROM renewed
