-- A page of those that wait: the queue in its order, then those that are not due
-- yet, by when they will be. LIMIT 1 has each row of the page read by its key,
-- whatever is known of the tables.
WITH page AS MATERIALIZED (
    SELECT * FROM (
        (SELECT seq, false AS later, order_key AS place FROM backups
          WHERE cluster_id = @cluster_id AND phase = 'Queued' AND NOT @later::boolean AND (order_key, seq) > (@place::timestamptz, @seq::bigint)
          ORDER BY order_key, seq LIMIT @limit)
        UNION ALL
        (SELECT seq, true, due_at(not_before, retry_at) FROM backups
          WHERE cluster_id = @cluster_id AND phase = 'New'
            AND (NOT @later::boolean OR (due_at(not_before, retry_at), seq) > (@place::timestamptz, @seq::bigint))
          ORDER BY due_at(not_before, retry_at), seq LIMIT @limit)) w
     ORDER BY later, place, seq LIMIT @limit),
before AS MATERIALIZED (
    SELECT count(*) AS n FROM backups
     WHERE cluster_id = @cluster_id AND phase = 'Queued' AND NOT @later::boolean AND (order_key, seq) <= (@place::timestamptz, @seq::bigint))
SELECT b.*, NULL::text[] AS contents_missing, NULL::text[] AS contents_excluded, NULL::jsonb AS artifacts, NULL::jsonb AS kinds, p.later, p.place,
       CASE WHEN p.later THEN 0 ELSE (SELECT n FROM before) + row_number() OVER (ORDER BY p.later, p.place, p.seq) END AS position,
       CASE WHEN p.later THEN 0 ELSE overlapping_ahead(b.seq) END AS overlapping_ahead
  FROM page p CROSS JOIN LATERAL (SELECT * FROM backup_rows r WHERE r.seq = p.seq LIMIT 1) b
 ORDER BY p.later, p.place, p.seq
