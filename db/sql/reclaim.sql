-- Gives queued backups the claims that their scopes have now. Behind the gate.
WITH wanted AS MATERIALIZED (
    SELECT b.seq, b.cluster_id, b.claim AS former, b.resolved AS was_resolved, c.resolved, c.namespace_ids, c.left_out,
           CASE WHEN NOT c.resolved OR b.scope = 'everything' THEN claim_everything(b.cluster_id)
                WHEN b.scope = 'everything-but' THEN claim_everything(b.cluster_id) - claim_some(b.cluster_id, c.namespace_ids)
                WHEN b.scope = 'some' THEN claim_some(b.cluster_id, c.namespace_ids)
                ELSE '{}' END AS claim
      FROM jsonb_to_recordset(@claims) AS c (seq bigint, resolved boolean, namespace_ids int[], left_out int[])
      JOIN backups b USING (seq) WHERE b.phase = 'Queued'),
current AS (
    UPDATE backups b
       SET inventory_version = @inventory_version, resolved = w.resolved, claim = w.claim, left_out = w.left_out,
           evaluated = b.evaluated AND w.claim = w.former AND w.was_resolved = w.resolved
      FROM wanted w WHERE b.seq = w.seq
    RETURNING b.seq, b.cluster_id, b.order_key, b.scope, b.wide, b.claim, w.namespace_ids,
              w.claim <> w.former OR w.was_resolved <> w.resolved AS changed),
gone AS (
    DELETE FROM claims c USING current n
     WHERE n.changed AND c.seq = n.seq AND NOT (n.scope = 'some' AND NOT n.wide AND c.namespace_id = ANY (n.namespace_ids))),
come AS (
    INSERT INTO claims (cluster_id, namespace_id, rank, order_key, seq)
    SELECT n.cluster_id, id, 1, n.order_key, n.seq FROM current n, unnest(n.namespace_ids) id
     WHERE n.changed AND n.scope = 'some' AND NOT n.wide
    ON CONFLICT DO NOTHING),
-- Those who waited for what it no longer claims.
left_over AS (
    INSERT INTO departures (cluster_id, seq)
    SELECT n.cluster_id, n.seq FROM current n
     WHERE n.changed AND (SELECT true FROM backups w WHERE w.blocked_by = n.seq LIMIT 1)
    ON CONFLICT (cluster_id, seq) DO UPDATE SET order_key = '-infinity', watcher = 0)
SELECT count(*) FROM current WHERE changed
