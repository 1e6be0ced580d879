-- The object is as the backup was at the outbox's entry "through".
WITH done AS (
    DELETE FROM mirror_outbox WHERE seq = @seq AND id <= @through)
INSERT INTO mirrors (seq, cluster_id, object_uid, queue_position)
SELECT @seq, b.cluster_id, @object_uid, @position FROM backups b WHERE b.seq = @seq
ON CONFLICT (seq) DO UPDATE SET object_uid = excluded.object_uid, queue_position = excluded.queue_position
