-- Gives queued backups the claims that their scopes have now: all of them anew,
-- or, where @touched is not null, of these namespaces alone, and the rest stays.
-- Behind the gate. Only what differs is written, however much is claimed.
WITH touched AS MATERIALIZED (SELECT @touched::int[] AS ids, claim_some(@cluster_id, @touched::int[]) AS keys),
wanted AS MATERIALIZED (
    SELECT b.seq, b.cluster_id, b.claim AS former, b.resolved AS was_resolved, c.resolved,
           CASE WHEN t.ids IS NULL THEN c.left_out
                ELSE ARRAY(SELECT id FROM unnest(b.left_out) id WHERE id <> ALL (t.ids)) || c.left_out END AS left_out,
           CASE WHEN NOT c.resolved OR b.scope = 'everything' THEN claim_everything(b.cluster_id)
                WHEN b.scope = 'everything-but' THEN
                     CASE WHEN t.ids IS NULL THEN claim_everything(b.cluster_id) ELSE b.claim + t.keys END - claim_some(b.cluster_id, c.namespace_ids)
                WHEN b.scope = 'some' THEN
                     CASE WHEN t.ids IS NULL THEN '{}' ELSE b.claim - t.keys END + claim_some(b.cluster_id, c.namespace_ids)
                ELSE '{}' END AS claim
      FROM touched t, jsonb_to_recordset(@claims) AS c (seq bigint, resolved boolean, namespace_ids int[], left_out int[])
      JOIN backups b USING (seq) WHERE b.phase = 'Queued'),
current AS (
    UPDATE backups b
       SET inventory_version = @inventory_version, resolved = w.resolved, claim = w.claim, left_out = w.left_out,
           evaluated = b.evaluated AND w.claim = w.former AND w.was_resolved = w.resolved
      FROM wanted w WHERE b.seq = w.seq
    RETURNING b.seq, b.cluster_id, b.order_key, w.claim <> w.former OR w.was_resolved <> w.resolved AS changed,
              -- What has a row of claims each.
              CASE WHEN b.scope = 'some' AND w.was_resolved THEN w.former ELSE '{}' END AS former_rows,
              CASE WHEN b.scope = 'some' AND b.resolved THEN b.claim ELSE '{}' END AS rows),
-- Each is found by its key. LIMIT keeps this from becoming a join, which would read
-- all that a backup claims.
gone AS (
    DELETE FROM claims WHERE ctid = ANY (ARRAY (
        SELECT found.ctid FROM current n, claim_ids(n.former_rows - n.rows) id CROSS JOIN LATERAL (
               SELECT c.ctid FROM claims c
                WHERE (c.cluster_id, c.namespace_id, c.rank, c.order_key, c.seq) = (n.cluster_id, id, 1, n.order_key, n.seq) LIMIT 1) found
         WHERE n.changed))),
come AS (
    INSERT INTO claims (cluster_id, namespace_id, rank, order_key, seq)
    SELECT n.cluster_id, id, 1, n.order_key, n.seq FROM current n, claim_ids(n.rows - n.former_rows) id WHERE n.changed),
-- Those who waited for what it no longer claims.
left_over AS (
    INSERT INTO departures (cluster_id, seq)
    SELECT n.cluster_id, n.seq FROM current n
     WHERE n.changed AND (SELECT true FROM backups w WHERE w.blocked_by = n.seq LIMIT 1)
    ON CONFLICT (cluster_id, seq) DO UPDATE SET order_key = '-infinity', watcher = 0)
SELECT count(*) FROM current WHERE changed
