-- What of a cluster's backups admission decides on: those that run, of the queue
-- all up to a place, at most so many, and of those that are not due the first so
-- many that will be.
SELECT b.seq, b.id, b.name, b.phase, b.order_key, b.labels, b.location,
       ARRAY (SELECT jsonb_array_elements_text(b.spec -> 'includedNamespaces')) AS included,
       ARRAY (SELECT jsonb_array_elements_text(b.spec -> 'excludedNamespaces')) AS excluded,
       b.not_before, b.retry_at, b.start_deadline, b.first_ready_at IS NOT NULL AS admitted,
       coalesce(b.slot, 0) AS slot, b.ready_at, b.wide,
       CASE WHEN b.slot IS NULL OR b.scope = 'everything' THEN '{}'
            WHEN b.wide THEN claim_names(claim_everything(b.cluster_id) - b.claim)
            ELSE claim_names(b.claim) END AS held
  FROM (SELECT DISTINCT seq FROM (
    SELECT seq FROM backups WHERE cluster_id = @cluster_id AND slot IS NOT NULL
    UNION ALL
    (SELECT seq FROM backups WHERE cluster_id = @cluster_id AND phase = 'New'
      ORDER BY due_at(not_before, retry_at), seq LIMIT @later)
    UNION ALL
    SELECT seq FROM backups WHERE seq = @through_seq::bigint AND phase = 'New'
    UNION ALL
    (SELECT seq FROM backups WHERE cluster_id = @cluster_id AND phase = 'Queued'
        AND (@through_seq::bigint IS NULL OR (order_key, seq) <= (@through_key::timestamptz, @through_seq::bigint))
      ORDER BY order_key, seq LIMIT @depth)) each) s
  JOIN backups b USING (seq)
