-- Queued backups whose claims a change of the namespaces leaves as they are.
UPDATE backups SET inventory_version = @inventory_version WHERE seq = ANY (@seqs::bigint[])
