-- A chunk of a running attempt's log, by the worker that has the fence. A chunk
-- that is there already was written before its answer was lost. No row is locked:
-- what a worker says of its own attempt as it loses it is true all the same.
INSERT INTO backup_logs (seq, attempt, chunk, at, text)
SELECT b.seq, b.attempt, @chunk, clock_timestamp(), @text FROM backups b
 WHERE b.seq = @seq AND b.fence = @fence AND b.slot IS NOT NULL
ON CONFLICT (seq, attempt, chunk) DO UPDATE SET text = backup_logs.text
