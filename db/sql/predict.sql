-- Keeps the first prediction of a backup's start.
INSERT INTO predictions (seq, predicted_at, start_p50, start_p90, basis)
SELECT p.seq, @at, p.start_p50, p.start_p90, p.basis
  FROM jsonb_to_recordset(@predictions::jsonb) AS p (seq bigint, start_p50 timestamptz, start_p90 timestamptz, basis text)
 WHERE EXISTS (SELECT FROM backups b WHERE b.seq = p.seq)
ON CONFLICT DO NOTHING
