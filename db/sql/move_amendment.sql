-- The change of the namespaces is worked into the queue up to this backup; into
-- all of it where it is null. Behind the gate.
WITH moved AS (
    UPDATE amendments a SET order_key = b.order_key, seq = b.seq FROM backups b WHERE a.cluster_id = @cluster_id AND b.seq = @up_to::bigint),
over AS (
    DELETE FROM amendments WHERE cluster_id = @cluster_id AND @up_to::bigint IS NULL RETURNING cluster_id)
SELECT pg_notify('berth_queue', cluster_id::text) FROM over
