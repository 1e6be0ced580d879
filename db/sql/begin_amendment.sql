-- A change of the namespaces is worked into all claims of the queue from its head
-- on. Together with one that is not worked in yet.
INSERT INTO amendments AS a (cluster_id, order_key, seq, names, relabelled)
VALUES (@cluster_id, '-infinity', 0, @names::text[], @relabelled::text[])
ON CONFLICT (cluster_id) DO UPDATE SET order_key = excluded.order_key, seq = excluded.seq,
       names = CASE WHEN cardinality(a.names) + cardinality(excluded.names) <= 1000 THEN a.names || excluded.names END,
       relabelled = a.relabelled || excluded.relabelled
