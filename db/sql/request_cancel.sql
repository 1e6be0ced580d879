-- Asks for the end of a running backup. Its worker ends it.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
asked AS (
    UPDATE backups b SET cancel_requested_at = i.at, message = @message FROM instant i
     WHERE b.seq = @seq AND b.slot IS NOT NULL AND b.cancel_requested_at IS NULL
    RETURNING b.*)
INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, message, worker, fence, attempt, slot)
SELECT i.at, a.cluster_id, a.seq, a.phase, a.phase, 'CancelRequested', a.message, a.worker, a.fence, a.attempt, a.slot FROM asked a, instant i
