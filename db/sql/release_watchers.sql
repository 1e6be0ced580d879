-- Looks at the next 128 backups that wait for one that left or moved back, and
-- lets those be looked at again that it is no longer in the way of. Behind the
-- gate.
WITH departed AS MATERIALIZED (
    SELECT seq, order_key, watcher FROM departures WHERE cluster_id = @cluster_id ORDER BY seq LIMIT 1),
stretch AS MATERIALIZED (
    SELECT q.seq, q.order_key, q.phase = 'Queued' AND NOT in_the_way(w, q) AS stale
      FROM departed d
      JOIN backups w ON w.seq = d.seq
      CROSS JOIN LATERAL (
           SELECT b.* FROM backups b
            WHERE b.blocked_by = d.seq AND (b.order_key, b.seq) > (d.order_key, d.watcher)
            ORDER BY b.order_key, b.seq LIMIT 128) q),
released AS (
    UPDATE backups b SET blocked_by = NULL, evaluated = false
     WHERE b.seq = ANY (ARRAY (SELECT seq FROM stretch WHERE stale))
    RETURNING b.seq),
further AS (
    UPDATE departures d SET order_key = s.order_key, watcher = s.seq
      FROM (SELECT order_key, seq FROM stretch WHERE (SELECT count(*) FROM stretch) = 128 ORDER BY order_key DESC, seq DESC LIMIT 1) s, departed o
     WHERE d.cluster_id = @cluster_id AND d.seq = o.seq),
done AS (
    DELETE FROM departures d USING departed o
     WHERE d.cluster_id = @cluster_id AND d.seq = o.seq AND (SELECT count(*) FROM stretch) < 128),
told AS (
    SELECT pg_notify('berth_queue', @cluster_id::int::text)
     WHERE EXISTS (SELECT FROM released) OR (SELECT count(*) FROM stretch) = 128)
SELECT (SELECT count(*) FROM released), (SELECT count(*) FROM told)
