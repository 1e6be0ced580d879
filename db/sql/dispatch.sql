-- One dequeue. Runs in a SERIALIZABLE transaction whose first statement took
-- the cluster's gate.
--
-- Invariant 1: no backup is admitted while as many of its cluster are running
-- as its limit allows.
-- Invariant 2: no two running backups of a cluster share a namespace.
-- Invariant 3: a Queued backup is never overtaken by a later one that it
-- overlaps.
-- Invariant 4: a free slot, a worker with room and an admissible backup never
-- stand beside each other for longer than the wake-up. Who is left over is told of
-- here; who leaves or enters the queue tells in its own statement.
-- Invariant 5: each waiting backup names what it waits for, and that is true. Here
-- the witness is stored; readers take it only while it holds.
--
-- Candidates are skipped where somebody else changes them; what is in their
-- way is read plainly, since a blocker that was skipped would be overtaken. The
-- lock leaves the row's key alone: who only refers to a candidate, as the mirror
-- does, does not make the dequeue skip it.
-- Of two candidates that overlap, the later one has the earlier as its
-- predecessor: so all without a predecessor are disjoint, and as many as there
-- are places can start at once.
--
-- Looked at are those that nobody has looked at since they may have changed
-- (fresh); where there is a place, of each sort that may start the first of those
-- that nothing was known to be in the way of (known); and without room, those
-- that may have got somebody ahead since (again). Where a list was cut off, none
-- behind its end is admitted: it would go before one that nobody has looked at.
-- Single rows are found by subqueries, not by joins, so that a plan made for few
-- rows or for many reads them by their keys.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
cluster AS MATERIALIZED (
    SELECT c.concurrent_backups, c.item_block_worker_count,
           is_paused(c, i.at) AS paused, is_reachable(c, i.at) AS reachable,
           (SELECT count(*) FROM backups r WHERE r.cluster_id = @cluster_id AND r.slot IS NOT NULL) AS running
      FROM clusters c, instant i WHERE c.id = @cluster_id),
free AS MATERIALIZED (
    SELECT s.slot, row_number() OVER (ORDER BY s.slot) AS n
      FROM slots s
     WHERE s.cluster_id = @cluster_id AND s.slot <= (SELECT concurrent_backups FROM cluster)
       AND NOT EXISTS (SELECT FROM backups r WHERE r.cluster_id = @cluster_id AND r.slot = s.slot)
     ORDER BY s.slot
     LIMIT (SELECT CASE WHEN paused THEN 0 ELSE greatest(0, least(@want::bigint, concurrent_backups - running)) END FROM cluster)),
-- Behind this place claims may be older than the namespaces.
amended AS MATERIALIZED (
    SELECT coalesce(min(a.order_key), 'infinity') AS order_key, coalesce(min(a.seq), 0) AS seq FROM amendments a WHERE a.cluster_id = @cluster_id),
-- The sorts that may start: those of a storage location that can be reached, and
-- that need the namespaces only while they are known.
open AS MATERIALIZED (
    SELECT l.name, s.needs_inventory
      FROM storage_locations l CROSS JOIN (VALUES (false), (true)) s (needs_inventory)
     WHERE l.cluster_id = @cluster_id AND l.available AND (NOT s.needs_inventory OR (SELECT reachable FROM cluster))),
fresh AS MATERIALIZED (
    SELECT b.seq, b.order_key, b.wide, b.claim, b.resolved, b.location, b.needs_inventory, b.evaluated, b.start_deadline, b.first_ready_at,
           b.blocked_by, b.blocked_since
      FROM backups b
     WHERE b.cluster_id = @cluster_id AND b.fresh
       AND (b.order_key, b.seq) <= (SELECT order_key, seq FROM amended)
     ORDER BY b.order_key, b.seq
     LIMIT 128
       FOR NO KEY UPDATE SKIP LOCKED),
-- One more than there are places tells whether there is more; where one of those
-- has got somebody ahead, more may have.
few AS MATERIALIZED (
    SELECT CASE WHEN EXISTS (
               SELECT FROM open o CROSS JOIN LATERAL (
                      SELECT b.seq, b.order_key, b.wide, b.claim FROM backups b
                       WHERE b.cluster_id = @cluster_id AND b.location = o.name AND b.needs_inventory = o.needs_inventory AND b.known
                       ORDER BY b.order_key, b.seq
                       LIMIT f.n) first
                CROSS JOIN LATERAL overlapping_predecessor(@cluster_id, first.seq, first.order_key, first.wide, first.claim)
                WHERE EXISTS (SELECT FROM free)) THEN 128 ELSE f.n END AS n
      FROM (SELECT least(32, count(*) + 1) AS n FROM free) f),
known AS MATERIALIZED (
    SELECT k.* FROM open o CROSS JOIN LATERAL (
        SELECT b.seq, b.order_key, b.wide, b.claim, b.resolved, b.location, b.needs_inventory, b.evaluated, b.start_deadline, b.first_ready_at,
               b.blocked_by, b.blocked_since
          FROM backups b
         WHERE b.cluster_id = @cluster_id AND b.location = o.name AND b.needs_inventory = o.needs_inventory AND b.known
           AND (b.order_key, b.seq) <= (SELECT order_key, seq FROM amended)
         ORDER BY b.order_key, b.seq
         LIMIT (SELECT n FROM few)
           FOR NO KEY UPDATE SKIP LOCKED) k
     WHERE EXISTS (SELECT FROM free)),
ends AS MATERIALIZED (
    (SELECT order_key, seq FROM fresh WHERE (SELECT count(*) FROM fresh) = 128 ORDER BY order_key DESC, seq DESC LIMIT 1)
    UNION ALL
    (SELECT DISTINCT ON (k.location, k.needs_inventory) k.order_key, k.seq FROM known k
      WHERE (SELECT count(*) FROM known n WHERE n.location = k.location AND n.needs_inventory = k.needs_inventory) = (SELECT n FROM few)
      ORDER BY k.location, k.needs_inventory, k.order_key DESC, k.seq DESC)),
-- The next of those to look at again, and the part of them that is to be.
relook AS MATERIALIZED (SELECT order_key, seq, everyone FROM relooks WHERE cluster_id = @cluster_id),
stretch AS MATERIALIZED (
    SELECT b.seq, b.order_key, b.resolved AND (r.everyone OR b.blocked_by IS NULL AND b.evaluated) AS due
      FROM relook r CROSS JOIN LATERAL (
           SELECT q.* FROM backups q
            WHERE q.cluster_id = @cluster_id AND q.phase = 'Queued' AND (q.order_key, q.seq) >= (r.order_key, r.seq)
              AND (q.order_key, q.seq) <= (SELECT order_key, seq FROM amended)
            ORDER BY q.order_key, q.seq
            LIMIT 128) b
     WHERE @want::int = 0),
again AS MATERIALIZED (
    SELECT b.seq, b.order_key, b.wide, b.claim, b.resolved, b.location, b.needs_inventory, b.evaluated, b.start_deadline, b.first_ready_at,
           b.blocked_by, b.blocked_since
      FROM backups b
     WHERE b.seq = ANY (ARRAY (SELECT s.seq FROM stretch s WHERE s.due AND s.seq NOT IN (SELECT seq FROM fresh)))
       FOR NO KEY UPDATE SKIP LOCKED),
-- Whose scope cannot be resolved waits for the namespaces, whoever else is in its
-- way: it has no witness.
looked_at AS MATERIALIZED (
    SELECT k.seq, k.order_key, k.evaluated, k.blocked_by, k.blocked_since,
           k.resolved AND (k.location, k.needs_inventory) IN (SELECT name, needs_inventory FROM open)
           AND (k.first_ready_at IS NOT NULL OR k.start_deadline IS NULL OR k.start_deadline > (SELECT at FROM instant)) AS admissible,
           CASE WHEN k.resolved
                THEN (SELECT p.seq FROM overlapping_predecessor(@cluster_id, k.seq, k.order_key, k.wide, k.claim) p) END AS witness
      FROM (SELECT * FROM fresh UNION ALL SELECT * FROM known UNION ALL SELECT * FROM again) k),
picked AS MATERIALIZED (
    SELECT f.slot, p.seq
      FROM (SELECT l.seq, row_number() OVER (ORDER BY l.order_key, l.seq) AS n
              FROM looked_at l
             WHERE l.witness IS NULL AND l.admissible
               AND NOT EXISTS (SELECT FROM ends e WHERE (e.order_key, e.seq) < (l.order_key, l.seq))) p
      JOIN free f USING (n)),
admitted AS (
    UPDATE backups b
       SET phase = 'ReadyToStart', reason = 'Admitted', message = '', version = version + 1,
           slot = (SELECT p.slot FROM picked p WHERE p.seq = b.seq), fence = nextval('fences'), worker = @worker,
           ready_at = i.at, first_ready_at = coalesce(b.first_ready_at, i.at), expires_at = i.at + b.keep_for,
           evaluated = false, blocked_by = NULL, blocked_since = NULL,
           contents = CASE WHEN b.wide
               THEN (SELECT coalesce(array_agg(n.name ORDER BY n.name), '{}') FROM namespaces n
                      WHERE n.cluster_id = @cluster_id AND n.present AND NOT n.excluded AND b.claim @> claim_key(@cluster_id, n.id))
               ELSE ARRAY (SELECT name FROM (
                        SELECT (SELECT CASE WHEN n.present AND NOT n.excluded THEN n.name END FROM namespaces n WHERE n.id = m.namespace_id) AS name
                          FROM claims m WHERE m.seq = b.seq) claimed WHERE name IS NOT NULL ORDER BY name) END,
           contents_missing = ARRAY (SELECT name FROM (
                        SELECT (SELECT CASE WHEN NOT n.present THEN n.name END FROM namespaces n WHERE n.id = m.namespace_id) AS name
                          FROM claims m WHERE m.seq = b.seq) claimed WHERE name IS NOT NULL ORDER BY name),
           contents_excluded = CASE WHEN b.scope = 'everything'
               THEN (SELECT coalesce(array_agg(n.name ORDER BY n.name), '{}') FROM namespaces n
                      WHERE n.cluster_id = @cluster_id AND n.present AND n.excluded)
               ELSE ARRAY (SELECT name FROM (
                        SELECT (SELECT CASE WHEN n.present AND n.excluded THEN n.name END FROM namespaces n WHERE n.id = o.id) AS name
                          FROM unnest(b.left_out) o (id)) left_out WHERE name IS NOT NULL ORDER BY name) END
      FROM instant i
     WHERE b.seq = ANY (ARRAY (SELECT seq FROM picked))
    RETURNING b.seq, b.id, b.cluster_id, b.name, b.attempt, b.fence, b.slot, b.labels, b.annotations, b.spec, b.created_at,
              greatest(b.enqueued_at, b.not_before) AS enqueued_at,
              b.ready_at, b.expires_at, b.contents, b.contents_missing, b.contents_excluded, b.worker, b.reason, b.order_key,
              (SELECT item_block_worker_count FROM cluster) AS item_block_worker_count),
held AS (
    UPDATE claims SET rank = 0 WHERE claims.seq = ANY (ARRAY (SELECT seq FROM picked))),
leased AS (
    INSERT INTO leases (seq, cluster_id, fence, worker, expires_at)
    SELECT a.seq, a.cluster_id, a.fence, a.worker, i.at + @lease_ttl::interval FROM admitted a, instant i),
noted AS MATERIALIZED (
    SELECT l.seq, l.witness, l.blocked_by, l.blocked_since FROM looked_at l
     WHERE (NOT l.evaluated OR l.witness IS DISTINCT FROM l.blocked_by) AND l.seq NOT IN (SELECT seq FROM picked)),
marked AS (
    UPDATE backups b
       SET evaluated = true, blocked_by = n.witness,
           blocked_since = CASE WHEN n.witness = n.blocked_by THEN n.blocked_since WHEN n.witness IS NOT NULL THEN i.at END
      FROM noted n, instant i
     WHERE b.seq = ANY (ARRAY (SELECT seq FROM noted)) AND b.seq = n.seq
    RETURNING b.seq, b.cluster_id, b.blocked_by, b.attempt, n.blocked_by AS was_blocked_by, n.blocked_since AS was_blocked_since),
-- Those that found something else in their way. LIMIT keeps this from becoming a join.
waiting AS (
    SELECT m.*,
           -- It runs from before, or from this very dequeue on.
           CASE WHEN w.slot IS NOT NULL OR m.blocked_by IN (SELECT seq FROM picked) THEN 'RunningOverlap' ELSE 'EarlierQueuedOverlap' END AS reason
      FROM marked m CROSS JOIN LATERAL (
           SELECT o.slot FROM backups o WHERE o.seq = m.blocked_by LIMIT 1) w
     WHERE m.blocked_by IS DISTINCT FROM m.was_blocked_by),
logged AS (
    INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, blocker, worker, fence, attempt, slot)
    SELECT i.at, a.cluster_id, a.seq, 'Queued', 'ReadyToStart', a.reason, NULL, a.worker, a.fence, a.attempt, a.slot
      FROM admitted a, instant i
    UNION ALL
    SELECT i.at, w.cluster_id, w.seq, 'Queued', 'Queued', w.reason, w.blocked_by, '', 0, w.attempt, NULL
      FROM waiting w, instant i
    -- Nothing is in the way of one any more that waited for something; there is no place for it.
    UNION ALL
    SELECT i.at, m.cluster_id, m.seq, 'Queued', 'Queued', 'Dispatch', NULL, '', 0, m.attempt, NULL
      FROM marked m, instant i WHERE m.blocked_by IS NULL AND m.was_blocked_since IS NOT NULL),
mirrored AS (
    INSERT INTO mirror_outbox (cluster_id, seq) SELECT cluster_id, seq FROM admitted),
-- A fresh one may have come before others that were looked at: those are behind
-- it in the queue, and nothing was in their way.
arrived AS MATERIALIZED (
    SELECT f.order_key, f.seq FROM (SELECT order_key, seq FROM fresh ORDER BY order_key, seq LIMIT 1) f
     WHERE EXISTS (
           SELECT FROM storage_locations l CROSS JOIN (VALUES (false), (true)) s (needs_inventory) CROSS JOIN LATERAL (
                  SELECT b.order_key, b.seq FROM backups b
                   WHERE b.cluster_id = @cluster_id AND b.location = l.name AND b.needs_inventory = s.needs_inventory AND b.known
                   ORDER BY b.order_key DESC, b.seq DESC LIMIT 1) last
            WHERE l.cluster_id = @cluster_id AND (last.order_key, last.seq) > (f.order_key, f.seq))),
further AS MATERIALIZED (
    SELECT order_key, seq, (SELECT coalesce(bool_or(everyone), false) FROM relook) AS everyone FROM (
        SELECT order_key, seq FROM arrived
        UNION ALL
        (SELECT order_key, seq FROM stretch WHERE (SELECT count(*) FROM stretch) = 128 ORDER BY order_key DESC, seq DESC LIMIT 1)
        UNION ALL
        SELECT order_key, seq FROM relook WHERE @want::int > 0) place
     ORDER BY order_key, seq LIMIT 1),
looking_on AS (
    INSERT INTO relooks AS r (cluster_id, order_key, seq, everyone) SELECT @cluster_id, order_key, seq, everyone FROM further
    ON CONFLICT (cluster_id) DO UPDATE SET order_key = excluded.order_key, seq = excluded.seq, everyone = excluded.everyone
     WHERE (r.order_key, r.seq) <> (excluded.order_key, excluded.seq)),
looked_again AS (
    DELETE FROM relooks WHERE cluster_id = @cluster_id AND EXISTS (SELECT FROM relook) AND NOT EXISTS (SELECT FROM further)),
rest AS MATERIALIZED (
    SELECT (SELECT count(*) FROM fresh) = 128
           OR EXISTS (SELECT FROM ends) AND (SELECT count(*) FROM picked) < (SELECT count(*) FROM free)
           OR @want::int = 0 AND EXISTS (SELECT FROM further) AS more),
-- What was admitted is given out at once; somebody goes on with the rest.
told AS (
    SELECT pg_notify('berth_queue', @cluster_id::int::text) FROM rest
     WHERE more AND EXISTS (SELECT FROM picked))
SELECT r.more,
       (SELECT coalesce(jsonb_agg(to_jsonb(a) ORDER BY a.order_key, a.seq), '[]') FROM admitted a) AS admitted,
       ARRAY (SELECT w.seq FROM waiting w ORDER BY w.seq) AS passed_over,
       (SELECT count(*) FROM told) AS told
  FROM rest r
