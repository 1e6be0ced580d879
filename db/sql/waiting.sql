-- The queue in its order.
SELECT b.*, row_number() OVER (ORDER BY b.order_key, b.seq) AS position,
       (SELECT count(*) FROM backups q WHERE q.cluster_id = b.cluster_id AND q.claim && b.claim
           AND (q.slot IS NOT NULL OR q.phase = 'Queued' AND (q.order_key, q.seq) < (b.order_key, b.seq))) AS overlapping_ahead
  FROM backup_rows b
 WHERE b.cluster_id = @cluster_id AND b.phase = 'Queued'
 ORDER BY b.order_key, b.seq
