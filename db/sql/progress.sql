-- A running backup's progress, by the worker that has the fence. The backup's
-- row is locked first, as every transition does: so a reaped worker writes
-- nothing, and the entries of a backup in the outbox are in the order of their
-- commits.
WITH running AS MATERIALIZED (
    SELECT seq, cluster_id FROM backups WHERE seq = @seq AND fence = @fence AND slot IS NOT NULL FOR NO KEY UPDATE),
reported AS (
    UPDATE progress p SET items_backed_up = @items, total_items = @total, bytes = @bytes, updated_at = clock_timestamp()
      FROM running r
     WHERE p.seq = r.seq AND p.fence = @fence
    RETURNING p.seq)
INSERT INTO mirror_outbox (cluster_id, seq)
SELECT r.cluster_id, r.seq FROM running r JOIN reported USING (seq)
