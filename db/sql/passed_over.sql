-- What backups that were passed over wait for, for the log.
SELECT b.name, w.name AS witness, shared_names(b.cluster_id, b.claim, b.wide, w.claim, w.wide) AS shared
  FROM backups b JOIN backups w ON w.seq = b.blocked_by
 WHERE b.seq = ANY (@seqs::bigint[])
 ORDER BY b.order_key, b.seq
