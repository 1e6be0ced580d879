-- A running backup's progress, by the worker that has the fence.
WITH reported AS (
    UPDATE progress p SET items_backed_up = @items, total_items = @total, bytes = @bytes, updated_at = clock_timestamp()
     WHERE p.seq = @seq AND p.fence = @fence
    RETURNING p.seq)
INSERT INTO mirror_outbox (cluster_id, seq)
SELECT b.cluster_id, b.seq FROM reported r JOIN backups b USING (seq)
