-- One backup with its place in the queue.
SELECT b.*,
       CASE WHEN b.phase = 'Queued' THEN (
           SELECT count(*) FROM backups q WHERE q.cluster_id = b.cluster_id AND q.phase = 'Queued'
              AND (q.order_key, q.seq) <= (b.order_key, b.seq)) ELSE 0 END AS position,
       CASE WHEN b.phase = 'Queued' THEN (
           SELECT count(*) FROM backups q WHERE q.cluster_id = b.cluster_id AND q.claim && b.claim
              AND (q.slot IS NOT NULL OR q.phase = 'Queued' AND (q.order_key, q.seq) < (b.order_key, b.seq))) ELSE 0 END AS overlapping_ahead
  FROM backup_rows b
