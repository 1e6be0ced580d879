-- The next queued backups whose claims may change with the namespaces: those
-- with a pattern, and where the exclude label of a namespace changed, those that
-- name it and every everything-but. So far is looked in one go: at most @budget of
-- those, and at most 2048 of all. Behind the gate, where nobody else changes a
-- queued backup.
WITH from_here AS MATERIALIZED (SELECT order_key, seq, names, relabelled FROM amendments WHERE cluster_id = @cluster_id),
stretch AS MATERIALIZED (
    SELECT b.seq, b.order_key,
           b.has_pattern OR cardinality(f.relabelled) > 0 AND (b.scope = 'everything-but' OR b.spec -> 'includedNamespaces' ?| f.relabelled) AS concerned
      FROM from_here f CROSS JOIN LATERAL (
           SELECT q.* FROM backups q
            WHERE q.cluster_id = @cluster_id AND q.phase = 'Queued' AND (q.order_key, q.seq) > (f.order_key, f.seq)
            ORDER BY q.order_key, q.seq LIMIT 2048) b),
those AS MATERIALIZED (
    SELECT seq, order_key FROM stretch WHERE concerned ORDER BY order_key, seq LIMIT @budget),
-- Null where this is the last stretch.
goal AS MATERIALIZED (
    (SELECT order_key, seq FROM those WHERE (SELECT count(*) FROM those) = @budget ORDER BY order_key DESC, seq DESC LIMIT 1)
    UNION ALL
    (SELECT order_key, seq FROM stretch
      WHERE (SELECT count(*) FROM those) < @budget AND (SELECT count(*) FROM stretch) = 2048 ORDER BY order_key DESC, seq DESC LIMIT 1)),
moved AS (
    UPDATE amendments a SET order_key = g.order_key, seq = g.seq FROM goal g WHERE a.cluster_id = @cluster_id),
over AS (
    DELETE FROM amendments WHERE cluster_id = @cluster_id AND NOT EXISTS (SELECT FROM goal)),
told AS (SELECT pg_notify('berth_queue', @cluster_id::int::text) WHERE NOT EXISTS (SELECT FROM goal))
SELECT coalesce((SELECT jsonb_agg(jsonb_build_object('seq', b.seq, 'spec', b.spec) ORDER BY s.order_key, s.seq)
                   FROM those s JOIN backups b USING (seq)), '[]') AS concerned,
       f.names, f.relabelled, EXISTS (SELECT FROM goal) AS more, (SELECT count(*) FROM told) AS told
  FROM from_here f
