-- The queue in its order.
SELECT b.*, row_number() OVER (ORDER BY b.order_key, b.seq) AS position, overlapping_ahead(b.seq) AS overlapping_ahead
  FROM backup_rows b
 WHERE b.cluster_id = @cluster_id AND b.phase = 'Queued'
 ORDER BY b.order_key, b.seq
