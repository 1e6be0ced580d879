-- Looks again at backups that wait for one that is no longer in their way, at
-- most 128 in key order. Behind the gate.
WITH departed AS MATERIALIZED (SELECT seq FROM departures WHERE cluster_id = @cluster_id ORDER BY seq LIMIT 1),
stale AS MATERIALIZED (
    SELECT q.seq FROM departed d
      JOIN backups w ON w.seq = d.seq
      JOIN backups q ON q.blocked_by = d.seq AND q.phase = 'Queued' AND NOT in_the_way(w, q)
     ORDER BY q.order_key, q.seq LIMIT 128),
released AS (
    UPDATE backups b SET blocked_by = NULL, evaluated = false
      FROM stale s WHERE b.seq = s.seq
    RETURNING b.seq),
done AS (
    DELETE FROM departures USING departed d
     WHERE departures.cluster_id = @cluster_id AND departures.seq = d.seq AND (SELECT count(*) FROM stale) < 128),
told AS (SELECT pg_notify('berth_queue', @cluster_id::int::text) FROM (SELECT FROM released LIMIT 1) any_released)
SELECT (SELECT count(*) FROM released), (SELECT count(*) FROM told)
