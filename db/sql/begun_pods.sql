-- The pods of a backup that are frozen, the longest first.
SELECT namespace, name, uid FROM frozen_pods WHERE seq = @seq ORDER BY since, namespace, name
