-- What decides what can be done with a backup.
SELECT b.seq, b.name, c.name AS cluster, b.phase, b.spec FROM backups b JOIN clusters c ON c.id = b.cluster_id WHERE b.id = @id
