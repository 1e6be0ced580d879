-- Writes down what the clock or somebody's silence changed for a whole cluster:
-- one event of the cluster, none of its backups'. Behind the gate.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
now AS MATERIALIZED (
    SELECT c.id, c.has_worker AS had_worker, c.reachable AS was_reachable, c.paused_since, c.paused_until,
           has_live_worker(c.id, i.at) AS has_worker, is_reachable(c, i.at) AS reachable, c.paused_until <= i.at IS TRUE AS resumed
      FROM clusters c, instant i WHERE c.id = @cluster_id),
changed AS (
    UPDATE clusters c
       SET has_worker = n.has_worker, worker_changed_at = CASE WHEN n.had_worker <> n.has_worker THEN i.at ELSE c.worker_changed_at END, reachable = n.reachable,
           settings_version = c.settings_version + CASE WHEN n.resumed THEN 1 ELSE 0 END,
           paused_since = CASE WHEN NOT n.resumed THEN c.paused_since END, paused_until = CASE WHEN NOT n.resumed THEN c.paused_until END,
           pause_reason = CASE WHEN n.resumed THEN '' ELSE c.pause_reason END, paused_by = CASE WHEN n.resumed THEN '' ELSE c.paused_by END
      FROM now n, instant i
     WHERE c.id = n.id AND (n.resumed OR n.had_worker <> n.has_worker OR n.was_reachable <> n.reachable)
    RETURNING c.id)
INSERT INTO events (at, cluster_id, reason, message, detail)
SELECT i.at, n.id, e.reason, e.message, e.detail
  FROM instant i, now n, changed,
       LATERAL (VALUES
           (n.resumed, 'QueueResumed', 'the pause ended by itself', jsonb_build_object('until', n.paused_until)),
           (n.had_worker AND NOT n.has_worker, 'WorkersGone', 'no worker of the cluster is alive', NULL),
           (NOT n.had_worker AND n.has_worker, 'WorkersBack', 'a worker of the cluster is alive', NULL),
           (n.was_reachable AND NOT n.reachable, 'ClusterUnreachable', 'the cluster''s API has not answered for a minute', NULL),
           (NOT n.was_reachable AND n.reachable, 'ClusterReachable', 'the cluster''s API answers', NULL)
       ) e (holds, reason, message, detail)
 WHERE e.holds
