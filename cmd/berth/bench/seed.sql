-- Puts backups of some namespaces, everything or everything-but into the queue,
-- a millisecond apart, all before now. Their events are of now: a new database has
-- no partition for those of a month that is over.
WITH cluster AS MATERIALIZED (SELECT id, inventory_version FROM clusters WHERE name = @cluster),
asked AS MATERIALIZED (
    SELECT e.n, (e.doc ->> 'id')::uuid AS id, e.doc ->> 'name' AS name, e.doc -> 'spec' AS spec, e.doc ->> 'scope' AS scope,
           ARRAY (SELECT s.id FROM jsonb_array_elements_text(e.doc -> 'literals') l
                    JOIN namespaces s ON s.cluster_id = (SELECT id FROM cluster) AND s.name = l ORDER BY s.id) AS namespaces,
           clock_timestamp() - interval '1 day' + (SELECT count(*) FROM backups) * interval '1 ms' + e.n * interval '1 ms' AS at
      FROM jsonb_array_elements(@backups::jsonb) WITH ORDINALITY e (doc, n)),
queued AS (
    INSERT INTO backups (id, cluster_id, name, phase, reason, spec, location, keep_for, created_at, enqueued_at, order_key,
                         max_attempts, scope, has_pattern, resolved, inventory_version, claim)
    SELECT a.id, c.id, a.name, 'Queued', 'Enqueued', a.spec, 'default', interval '30 days', a.at, a.at, a.at,
           @max_attempts::int, a.scope, false, true, c.inventory_version,
           CASE a.scope WHEN 'everything' THEN claim_everything(c.id)
                        WHEN 'everything-but' THEN claim_everything(c.id) - claim_some(c.id, a.namespaces)
                        ELSE claim_some(c.id, a.namespaces) END
      FROM asked a, cluster c
     ORDER BY a.n
    RETURNING seq, id, cluster_id, order_key, scope),
claimed AS (
    INSERT INTO claims (cluster_id, namespace_id, rank, order_key, seq)
    SELECT q.cluster_id, named, 1, q.order_key, q.seq FROM queued q JOIN asked a USING (id), unnest(a.namespaces) named
     WHERE q.scope = 'some')
INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, attempt)
SELECT clock_timestamp(), q.cluster_id, q.seq, '', 'Queued', 'Enqueued', 1 FROM queued q
