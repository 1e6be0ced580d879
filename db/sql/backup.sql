-- One backup with its place in the queue.
SELECT b.*,
       CASE WHEN b.phase = 'Queued' THEN queue_position(b.seq) ELSE 0 END AS position,
       CASE WHEN b.phase = 'Queued' THEN overlapping_ahead(b.seq) ELSE 0 END AS overlapping_ahead
  FROM backup_rows b
