-- One backup with its place in the queue.
SELECT b.*, o.contents_missing, o.contents_excluded,
       -- Those of an attempt that did not end are nobody's.
       a.artifacts, a.kinds,
       CASE WHEN b.phase = 'Queued' THEN queue_position(b.seq) ELSE 0 END AS position,
       CASE WHEN b.phase = 'Queued' THEN overlapping_ahead(b.seq) ELSE 0 END AS overlapping_ahead
  FROM backup_rows b JOIN backups o ON o.seq = b.seq
  LEFT JOIN archives a ON a.seq = b.seq AND a.fence = o.fence AND b.phase IN ('Completed', 'PartiallyFailed', 'Deleting')
