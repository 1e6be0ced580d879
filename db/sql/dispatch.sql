-- One dequeue. Runs in a SERIALIZABLE transaction whose first statement took
-- the cluster's gate.
--
-- Invariant 1: no backup is admitted while as many of its cluster are running
-- as its limit allows.
-- Invariant 2: no two running backups of a cluster share a namespace.
-- Invariant 3: a Queued backup is never overtaken by a later one that it
-- overlaps.
--
-- Candidates are skipped where somebody else changes them; what is in their
-- way is read plainly, since a blocker that was skipped would be overtaken. The
-- lock leaves the row's key alone: who only refers to a candidate, as the mirror
-- does, does not make the dequeue skip it.
-- Of two candidates that overlap, the later one has the earlier as its
-- predecessor: so all without a predecessor are disjoint, and as many as there
-- are places can start at once.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
cluster AS MATERIALIZED (
    SELECT c.id, c.inventory_version, c.concurrent_backups,
           (SELECT count(*) FROM backups r WHERE r.cluster_id = c.id AND r.slot IS NOT NULL) AS running
      FROM clusters c WHERE c.id = @cluster_id),
free AS MATERIALIZED (
    SELECT s.slot, row_number() OVER (ORDER BY s.slot) AS n
      FROM slots s, cluster c
     WHERE s.cluster_id = c.id AND s.slot <= c.concurrent_backups
       AND NOT EXISTS (SELECT FROM backups r WHERE r.cluster_id = c.id AND r.slot = s.slot)
     ORDER BY s.slot
     LIMIT greatest(0, least(@want::bigint, (SELECT concurrent_backups - running FROM cluster)))),
candidates AS MATERIALIZED (
    SELECT b.seq, b.order_key, b.wide, b.claim, b.evaluated,
           b.has_pattern AND b.inventory_version <> c.inventory_version AS stale
      FROM backups b, cluster c
     WHERE b.cluster_id = c.id AND b.phase = 'Queued' AND b.blocked_by IS NULL AND b.resolved
       AND (NOT b.evaluated OR EXISTS (SELECT FROM free))
     ORDER BY b.order_key, b.seq
     LIMIT @budget
       FOR NO KEY UPDATE OF b SKIP LOCKED),
looked_at AS MATERIALIZED (
    SELECT k.*, p.seq AS witness
      FROM candidates k, cluster c
      LEFT JOIN LATERAL overlapping_predecessor(c.id, k.seq, k.order_key, k.wide, k.claim) p ON true),
picked AS MATERIALIZED (
    SELECT seq, row_number() OVER (ORDER BY order_key, seq) AS n
      FROM looked_at WHERE witness IS NULL AND NOT stale),
admitted AS (
    UPDATE backups b
       SET phase = 'ReadyToStart', reason = 'Admitted', message = '', version = version + 1,
           slot = f.slot, fence = nextval('fences'), worker = @worker,
           ready_at = i.at, expires_at = i.at + b.keep_for, evaluated = false,
           contents = (SELECT coalesce(array_agg(n.name ORDER BY n.name), '{}') FROM namespaces n
                        WHERE n.cluster_id = b.cluster_id AND n.present AND NOT n.excluded
                          AND b.claim @> claim_key(b.cluster_id, n.id)),
           contents_missing = (SELECT coalesce(array_agg(n.name ORDER BY n.name), '{}') FROM claims m JOIN namespaces n ON n.id = m.namespace_id
                                WHERE m.seq = b.seq AND NOT n.present),
           contents_excluded = (SELECT coalesce(array_agg(n.name ORDER BY n.name), '{}') FROM namespaces n
                                 WHERE n.cluster_id = b.cluster_id AND n.present AND n.excluded
                                   AND (b.scope = 'everything' OR n.id = ANY (b.left_out)))
      FROM picked p JOIN free f USING (n), instant i
     WHERE b.seq = p.seq
    RETURNING b.seq, b.id, b.cluster_id, b.name, b.attempt, b.fence, b.slot, b.labels, b.annotations, b.spec, b.created_at, b.enqueued_at,
              b.ready_at, b.expires_at, b.contents, b.contents_missing, b.contents_excluded, b.worker, b.reason),
held AS (
    UPDATE claims SET rank = 0 FROM admitted a WHERE claims.seq = a.seq),
leased AS (
    INSERT INTO leases (seq, cluster_id, fence, worker, expires_at)
    SELECT a.seq, a.cluster_id, a.fence, a.worker, i.at + @lease_ttl::interval FROM admitted a, instant i),
marked AS (
    UPDATE backups b
       SET evaluated = true, blocked_by = l.witness,
           blocked_since = CASE WHEN l.witness IS NOT NULL THEN i.at END
      FROM looked_at l, instant i
     WHERE b.seq = l.seq AND NOT l.stale
       AND (l.witness IS NOT NULL OR (NOT l.evaluated AND l.seq NOT IN (SELECT p.seq FROM picked p JOIN free USING (n))))
    RETURNING b.seq, b.cluster_id, b.blocked_by, b.attempt),
logged AS (
    INSERT INTO events (at, cluster_id, seq, from_phase, to_phase, reason, blocker, worker, fence, attempt, slot)
    SELECT i.at, a.cluster_id, a.seq, 'Queued', 'ReadyToStart', a.reason, NULL, a.worker, a.fence, a.attempt, a.slot
      FROM admitted a, instant i
    UNION ALL
    -- A witness runs from before, or from this very dequeue on.
    SELECT i.at, m.cluster_id, m.seq, 'Queued', 'Queued',
           CASE WHEN w.slot IS NOT NULL OR w.seq IN (SELECT seq FROM admitted) THEN 'RunningOverlap' ELSE 'EarlierQueuedOverlap' END,
           m.blocked_by, '', 0, m.attempt, NULL
      FROM marked m JOIN backups w ON w.seq = m.blocked_by, instant i),
mirrored AS (
    INSERT INTO mirror_outbox (cluster_id, seq) SELECT cluster_id, seq FROM admitted)
SELECT (SELECT count(*) FROM looked_at) AS looked_at,
       (SELECT count(*) FROM looked_at WHERE stale) AS stale,
       (SELECT coalesce(jsonb_agg(to_jsonb(a)), '[]') FROM admitted a) AS admitted,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('name', b.name, 'witness', w.name,
                   'shared', shared_names(b.cluster_id, b.claim, b.wide, w.claim, w.wide))), '[]')
          FROM marked m JOIN backups b ON b.seq = m.seq JOIN backups w ON w.seq = m.blocked_by) AS passed_over
