-- The next queued backups whose claims may change with the namespaces: those
-- with a pattern, and where the exclude label of a namespace changed, those that
-- name it and every everything-but. So far is looked in one go: at most @budget of
-- those, and at most 2048 of all; up_to is the last that was looked at, null where
-- nobody stands behind it. Behind the gate, where nobody else changes a queued
-- backup.
WITH from_here AS MATERIALIZED (SELECT order_key, seq, names, relabelled FROM amendments WHERE cluster_id = @cluster_id),
stretch AS MATERIALIZED (
    SELECT b.seq, b.order_key,
           b.has_pattern OR cardinality(f.relabelled) > 0 AND (b.scope = 'everything-but' OR b.spec -> 'includedNamespaces' ?| f.relabelled) AS concerned
      FROM from_here f CROSS JOIN LATERAL (
           SELECT q.* FROM backups q
            WHERE q.cluster_id = @cluster_id AND q.phase = 'Queued' AND (q.order_key, q.seq) > (f.order_key, f.seq)
            ORDER BY q.order_key, q.seq LIMIT 2048) b),
those AS MATERIALIZED (
    SELECT seq, order_key FROM stretch WHERE concerned ORDER BY order_key, seq LIMIT @budget)
SELECT coalesce((SELECT jsonb_agg(jsonb_build_object('seq', b.seq, 'spec', b.spec, 'resolved', b.resolved) ORDER BY s.order_key, s.seq)
                   FROM those s JOIN backups b USING (seq)), '[]') AS concerned,
       f.names, f.relabelled,
       CASE WHEN (SELECT count(*) FROM those) = @budget THEN (SELECT seq FROM those ORDER BY order_key DESC, seq DESC LIMIT 1)
            WHEN (SELECT count(*) FROM stretch) = 2048 THEN (SELECT seq FROM stretch ORDER BY order_key DESC, seq DESC LIMIT 1) END AS up_to
  FROM from_here f
