-- The queue: clusters, their namespaces and slots, the backups, what they
-- claim, and the event log.

CREATE TABLE clusters (
    -- Ids stay below 2^31 - 1, so that cluster << 32 and (cluster + 1) << 32 fit a bigint.
    id                      int GENERATED ALWAYS AS IDENTITY PRIMARY KEY CHECK (id > 0 AND id < 2147483647),
    name                    text NOT NULL UNIQUE,
    concurrent_backups      int NOT NULL DEFAULT 1 CHECK (concurrent_backups BETWEEN 1 AND 10000),
    -- Moves with every change of the cluster's namespaces.
    inventory_version       bigint NOT NULL DEFAULT 1,
    -- When the namespaces were first known completely; null before.
    inventory_synced_at     timestamptz,
    created_at              timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The dispatch gates. They never have rows: a gate is a lock that a
-- transaction can wait for before its snapshot is taken. Cluster c uses gate
-- c mod 16.
CREATE TABLE dispatch_gate_0 ();
CREATE TABLE dispatch_gate_1 ();
CREATE TABLE dispatch_gate_2 ();
CREATE TABLE dispatch_gate_3 ();
CREATE TABLE dispatch_gate_4 ();
CREATE TABLE dispatch_gate_5 ();
CREATE TABLE dispatch_gate_6 ();
CREATE TABLE dispatch_gate_7 ();
CREATE TABLE dispatch_gate_8 ();
CREATE TABLE dispatch_gate_9 ();
CREATE TABLE dispatch_gate_10 ();
CREATE TABLE dispatch_gate_11 ();
CREATE TABLE dispatch_gate_12 ();
CREATE TABLE dispatch_gate_13 ();
CREATE TABLE dispatch_gate_14 ();
CREATE TABLE dispatch_gate_15 ();

-- Every attempt's fence comes from here: a later attempt has a greater one.
CREATE SEQUENCE fences;

-- A cluster's concurrent places: one row for each number up to its limit, and
-- those above a lowered limit until the backup that holds them ends.
CREATE TABLE slots (
    cluster_id int NOT NULL REFERENCES clusters,
    slot       int NOT NULL CHECK (slot > 0),
    PRIMARY KEY (cluster_id, slot)
);

-- The namespaces that the cluster has or that a backup has named.
CREATE TABLE namespaces (
    id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    cluster_id int NOT NULL REFERENCES clusters,
    name       text NOT NULL,
    -- False for a name that only backups have mentioned.
    present    boolean NOT NULL DEFAULT false,
    -- The label velero.io/exclude-from-backup=true.
    excluded   boolean NOT NULL DEFAULT false,
    UNIQUE (cluster_id, name)
);
CREATE INDEX namespaces_present ON namespaces (cluster_id, name) WHERE present;
CREATE INDEX namespaces_excluded ON namespaces (cluster_id, name) WHERE excluded;

CREATE TABLE storage_locations (
    cluster_id int NOT NULL REFERENCES clusters,
    name       text NOT NULL,
    url        text NOT NULL,
    prefix     text NOT NULL DEFAULT '',
    read_only  boolean NOT NULL DEFAULT false,
    PRIMARY KEY (cluster_id, name),
    -- Two locations never share a folder.
    UNIQUE (url, prefix)
);

-- A namespace's place on the line of numbers that claims are ranges of.
CREATE FUNCTION claim_key(cluster_id int, namespace_id int) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN (cluster_id::bigint << 32) + namespace_id;

-- Everything that a cluster has or will ever have.
CREATE FUNCTION claim_everything(cluster_id int) RETURNS int8multirange
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN int8multirange(int8range(cluster_id::bigint << 32, (cluster_id::bigint + 1) << 32));

-- Exactly these namespaces.
CREATE FUNCTION claim_some(cluster_id int, namespace_ids int[]) RETURNS int8multirange
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce((SELECT range_agg(int8range(claim_key(cluster_id, n), claim_key(cluster_id, n) + 1))
                     FROM unnest(namespace_ids) n), '{}'::int8multirange);

CREATE TABLE backups (
    seq                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id                 uuid NOT NULL UNIQUE,
    cluster_id         int NOT NULL REFERENCES clusters,
    name               text NOT NULL,
    phase              text NOT NULL,
    reason             text NOT NULL DEFAULT '',
    message            text NOT NULL DEFAULT '',
    labels             jsonb NOT NULL DEFAULT '{}',
    annotations        jsonb NOT NULL DEFAULT '{}',
    spec               jsonb NOT NULL,
    location           text NOT NULL,
    version            bigint NOT NULL DEFAULT 1,

    created_at         timestamptz NOT NULL,
    enqueued_at        timestamptz,
    ready_at           timestamptz,
    started_at         timestamptz,
    completed_at       timestamptz,
    expires_at         timestamptz,
    -- How long the backup is kept after its admission (spec.ttl).
    keep_for           interval NOT NULL,

    -- The place in the queue: order_key, then seq.
    order_key          timestamptz NOT NULL,

    -- What the backup claims: as its spec says it, and as ranges of claim keys.
    scope              text NOT NULL CHECK (scope IN ('none', 'some', 'everything', 'everything-but')),
    wide               boolean NOT NULL GENERATED ALWAYS AS (scope IN ('everything', 'everything-but') OR NOT resolved) STORED,
    has_pattern        boolean NOT NULL,
    resolved           boolean NOT NULL,
    inventory_version  bigint NOT NULL,
    claim              int8multirange NOT NULL,
    -- The namespaces that the scope names and the exclude label keeps out; of
    -- everything that is whichever has the label.
    left_out           int[] NOT NULL DEFAULT '{}',
    -- The contents, frozen at admission: namespaces that existed, named ones
    -- that did not, and those that the exclude label keeps out.
    contents           text[],
    contents_missing   text[],
    contents_excluded  text[],

    -- Whether the place was looked at since it last could have changed.
    evaluated          boolean NOT NULL DEFAULT false,
    -- The witness: an active backup ahead that overlaps, the furthest back
    -- when it was marked.
    blocked_by         bigint,
    blocked_since      timestamptz,

    attempt            int NOT NULL DEFAULT 1 CHECK (attempt > 0),
    max_attempts       int NOT NULL DEFAULT 3 CHECK (max_attempts > 0),
    lost_leases        int NOT NULL DEFAULT 0,
    slot               int,
    fence              bigint NOT NULL DEFAULT 0,
    worker             text NOT NULL DEFAULT '',

    warnings           int NOT NULL DEFAULT 0,
    errors             int NOT NULL DEFAULT 0,
    validation_errors  text[] NOT NULL DEFAULT '{}',
    failure_reason     text NOT NULL DEFAULT '',

    UNIQUE (cluster_id, name),
    CONSTRAINT backups_phase CHECK (phase IN ('New', 'Queued', 'ReadyToStart', 'InProgress', 'Finalizing',
        'FinalizingPartiallyFailed', 'Completed', 'PartiallyFailed', 'Failed', 'FailedValidation', 'Canceled', 'Deleting')),
    CONSTRAINT backups_slot_while_running CHECK (
        (phase IN ('ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')) = (slot IS NOT NULL)),
    CONSTRAINT backups_witness_while_queued CHECK (blocked_by IS NULL OR phase = 'Queued'),
    CONSTRAINT backups_claim_in_cluster CHECK (claim <@ claim_everything(cluster_id)),
    CONSTRAINT backups_slot_exists FOREIGN KEY (cluster_id, slot) REFERENCES slots (cluster_id, slot),

    -- Invariant 2, the last line of defence: no two running backups of a
    -- cluster share a namespace. Behind the gate it never fires.
    CONSTRAINT backups_running_disjoint EXCLUDE USING gist (claim WITH &&)
        WHERE (phase IN ('ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed'))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 200);

-- Invariant 1, the last line of defence: one running backup a slot.
CREATE UNIQUE INDEX backups_slot ON backups (cluster_id, slot) WHERE slot IS NOT NULL;
-- What a dequeue looks at: those that nobody has looked at, and those that
-- nothing is known to be in the way of.
CREATE INDEX backups_fresh ON backups (cluster_id, order_key, seq)
    WHERE phase = 'Queued' AND blocked_by IS NULL AND resolved AND NOT evaluated;
CREATE INDEX backups_known ON backups (cluster_id, order_key, seq)
    WHERE phase = 'Queued' AND blocked_by IS NULL AND resolved AND evaluated;
CREATE INDEX backups_queue ON backups (cluster_id, order_key, seq) WHERE phase = 'Queued';
CREATE INDEX backups_wide ON backups (cluster_id, order_key, seq)
    WHERE wide AND phase IN ('Queued', 'ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed');
CREATE INDEX backups_watchers ON backups (blocked_by, order_key, seq) WHERE blocked_by IS NOT NULL;
CREATE INDEX backups_patterns ON backups (cluster_id, seq) WHERE phase = 'Queued' AND has_pattern;
CREATE INDEX backups_list ON backups (cluster_id, seq DESC);

-- One row for each namespace that an active backup with a scope of some
-- namespaces holds (rank 0) or waits for (rank 1).
CREATE TABLE claims (
    cluster_id   int NOT NULL,
    namespace_id int NOT NULL REFERENCES namespaces,
    rank         smallint NOT NULL CHECK (rank IN (0, 1)),
    order_key    timestamptz NOT NULL,
    seq          bigint NOT NULL REFERENCES backups ON DELETE CASCADE,
    PRIMARY KEY (cluster_id, namespace_id, rank, order_key, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 200);
CREATE INDEX claims_seq ON claims (seq);

-- Backups that stand in nobody's way any more, or in fewer's, while some still
-- wait for them: more than one transaction releases. The row is written with
-- the change that makes it so, and goes with the last watcher.
CREATE TABLE departures (
    cluster_id int NOT NULL,
    seq        bigint NOT NULL REFERENCES backups ON DELETE CASCADE,
    PRIMARY KEY (cluster_id, seq)
);

-- A worker's right to a running backup. The expiry is in no index, so that a
-- renewal touches no index either.
CREATE TABLE leases (
    seq        bigint PRIMARY KEY REFERENCES backups ON DELETE CASCADE,
    cluster_id int NOT NULL,
    fence      bigint NOT NULL,
    worker     text NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE workers (
    id         text PRIMARY KEY,
    cluster_id int NOT NULL REFERENCES clusters,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Until when the worker counts as alive.
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX workers_cluster ON workers (cluster_id);

CREATE TABLE progress (
    seq             bigint PRIMARY KEY REFERENCES backups ON DELETE CASCADE,
    fence           bigint NOT NULL,
    items_backed_up int NOT NULL DEFAULT 0,
    total_items     int NOT NULL DEFAULT 0,
    bytes           bigint NOT NULL DEFAULT 0,
    updated_at      timestamptz NOT NULL
) WITH (fillfactor = 50);

-- What the mirror has still to write into the cluster: rows are only inserted
-- and deleted, so that no transition ever waits for the mirror.
CREATE TABLE mirror_outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    cluster_id int NOT NULL,
    seq        bigint NOT NULL REFERENCES backups ON DELETE CASCADE
);
CREATE INDEX mirror_outbox_seq ON mirror_outbox (seq);

-- What the mirror last wrote.
CREATE TABLE mirrors (
    seq            bigint PRIMARY KEY REFERENCES backups ON DELETE CASCADE,
    cluster_id     int NOT NULL,
    object_uid     text NOT NULL DEFAULT '',
    queue_position int NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX mirrors_positions ON mirrors (cluster_id) WHERE queue_position > 0;

-- Who mirrors a cluster.
CREATE TABLE mirror_leaders (
    cluster_id int PRIMARY KEY REFERENCES clusters,
    holder     text NOT NULL,
    term       bigint NOT NULL DEFAULT 1,
    expires_at timestamptz NOT NULL
);

-- Every transition, every change of a witness, every change of a cluster:
-- append only, by the month. There is no default partition: a month without
-- one is an error that is seen.
CREATE TABLE events (
    id           bigint GENERATED ALWAYS AS IDENTITY,
    at           timestamptz NOT NULL,
    cluster_id   int NOT NULL,
    seq          bigint,
    from_phase   text,
    to_phase     text,
    reason       text NOT NULL,
    message      text NOT NULL DEFAULT '',
    blocker      bigint,
    worker       text NOT NULL DEFAULT '',
    fence        bigint NOT NULL DEFAULT 0,
    attempt      int NOT NULL DEFAULT 0,
    slot         int,
    PRIMARY KEY (at, id)
) PARTITION BY RANGE (at);
CREATE INDEX events_seq ON events (seq, id);
CREATE INDEX events_cluster ON events (cluster_id, id);

-- The active backup ahead that overlaps, the furthest back in the queue; no
-- row if there is none. This is the rule of invariants 2 and 3: ahead of a
-- queued backup is every running one and every queued one with a smaller
-- (order_key, seq).
CREATE FUNCTION overlapping_predecessor(of_cluster int, of_seq bigint, of_order_key timestamptz, of_wide boolean, of_claim int8multirange)
    RETURNS TABLE (seq bigint) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT found.seq FROM (
        -- Two scopes of some namespaces meet in a row of claims each.
        (SELECT p.seq, p.rank, p.order_key
           FROM claims mine
          CROSS JOIN LATERAL (
                SELECT c.seq, c.rank, c.order_key FROM claims c
                 WHERE c.cluster_id = of_cluster AND c.namespace_id = mine.namespace_id
                   AND (c.rank, c.order_key, c.seq) < (1::smallint, of_order_key, of_seq)
                   AND c.seq <> of_seq
                 ORDER BY c.rank DESC, c.order_key DESC, c.seq DESC LIMIT 1) p
          WHERE mine.seq = of_seq AND NOT of_wide)
        UNION ALL
        -- A wide scope ahead, queued.
        (SELECT w.seq, 1::smallint, w.order_key FROM backups w
          WHERE w.cluster_id = of_cluster AND w.wide AND w.phase = 'Queued'
            AND (w.order_key, w.seq) < (of_order_key, of_seq) AND w.claim && of_claim
          ORDER BY w.order_key DESC, w.seq DESC LIMIT 1)
        UNION ALL
        -- A wide scope that runs.
        (SELECT w.seq, 0::smallint, w.order_key FROM backups w
          WHERE w.cluster_id = of_cluster AND w.wide AND w.seq <> of_seq
            AND w.phase IN ('ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')
            AND w.claim && of_claim
          ORDER BY w.order_key DESC, w.seq DESC LIMIT 1)
        UNION ALL
        -- This scope is wide: any claim ahead, queued.
        (SELECT q.seq, 1::smallint, q.order_key FROM backups q
          WHERE of_wide AND q.cluster_id = of_cluster AND q.phase = 'Queued'
            AND (q.order_key, q.seq) < (of_order_key, of_seq) AND q.claim && of_claim
          ORDER BY q.order_key DESC, q.seq DESC LIMIT 1)
        UNION ALL
        -- This scope is wide: any claim that runs.
        (SELECT r.seq, 0::smallint, r.order_key FROM backups r
          WHERE of_wide AND r.cluster_id = of_cluster AND r.seq <> of_seq
            AND r.slot IS NOT NULL AND r.claim && of_claim
          ORDER BY r.order_key DESC, r.seq DESC LIMIT 1)
    ) found
    ORDER BY found.rank DESC, found.order_key DESC, found.seq DESC LIMIT 1
$$;

-- Whether one backup is in the way of another, a queued one: it is active,
-- ahead, and overlaps.
CREATE FUNCTION in_the_way(one backups, of_another backups) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN one.claim && of_another.claim
       AND (one.slot IS NOT NULL
            OR one.phase = 'Queued' AND (one.order_key, one.seq) < (of_another.order_key, of_another.seq));

-- Makes the partitions of the month of "at" and of so many months after it.
CREATE FUNCTION make_event_partitions(at timestamptz, months int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first date := date_trunc('month', at AT TIME ZONE 'UTC')::date;
    month date;
BEGIN
    -- Two processes that start at once make one partition.
    PERFORM pg_advisory_xact_lock(2, 0);
    FOR i IN 0 .. months LOOP
        month := first + make_interval(months => i);
        EXECUTE format('CREATE TABLE IF NOT EXISTS events_%s PARTITION OF events FOR VALUES FROM (%L) TO (%L)',
            to_char(month, 'YYYY_MM'),
            month::timestamp AT TIME ZONE 'UTC',
            (month + interval '1 month')::timestamp AT TIME ZONE 'UTC');
    END LOOP;
END $$;
SELECT make_event_partitions(clock_timestamp(), 3);

-- The drawn transitions are the only ones (phase.go has the same table), and
-- an admission below SERIALIZABLE is refused.
CREATE FUNCTION backups_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before text := '';
    drawn  boolean;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        before := OLD.phase;
    END IF;
    drawn := CASE before
        WHEN '' THEN NEW.phase IN ('New', 'Queued')
        WHEN 'New' THEN NEW.phase IN ('Queued', 'Failed', 'Canceled')
        WHEN 'Queued' THEN NEW.phase IN ('New', 'ReadyToStart', 'Failed', 'Canceled')
        WHEN 'ReadyToStart' THEN NEW.phase IN ('InProgress', 'FailedValidation', 'Queued', 'New', 'Failed', 'Canceled')
        WHEN 'InProgress' THEN NEW.phase IN ('Finalizing', 'FinalizingPartiallyFailed', 'Queued', 'New', 'Failed', 'Canceled')
        WHEN 'Finalizing' THEN NEW.phase IN ('Completed', 'Queued', 'New', 'Failed', 'Canceled')
        WHEN 'FinalizingPartiallyFailed' THEN NEW.phase IN ('PartiallyFailed', 'Queued', 'New', 'Failed', 'Canceled')
        WHEN 'Completed' THEN NEW.phase = 'Deleting'
        WHEN 'PartiallyFailed' THEN NEW.phase IN ('Queued', 'Deleting')
        WHEN 'Failed' THEN NEW.phase IN ('Queued', 'Deleting')
        WHEN 'FailedValidation' THEN NEW.phase = 'Deleting'
        WHEN 'Canceled' THEN NEW.phase IN ('Queued', 'Deleting')
        ELSE false
    END;
    IF NOT drawn THEN
        RAISE EXCEPTION 'backup %: no transition from % to %', NEW.name, quote_literal(before), NEW.phase
            USING ERRCODE = 'BE001';
    END IF;
    IF NEW.phase = 'ReadyToStart' AND current_setting('transaction_isolation') <> 'serializable' THEN
        RAISE EXCEPTION 'backup %: admission needs a SERIALIZABLE transaction', NEW.name
            USING ERRCODE = 'BE002';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER backups_guard_insert BEFORE INSERT ON backups FOR EACH ROW EXECUTE FUNCTION backups_guard();
CREATE TRIGGER backups_guard_update BEFORE UPDATE OF phase ON backups FOR EACH ROW
    WHEN (OLD.phase IS DISTINCT FROM NEW.phase) EXECUTE FUNCTION backups_guard();

-- The namespaces in a claim that is no wide one. In PL/pgSQL, which is not
-- inlined, so that planners believe that they are few and look each up by its
-- key instead of reading all namespaces.
CREATE FUNCTION claim_ids(claim int8multirange) RETURNS SETOF int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE ROWS 4 AS $$
BEGIN
    RETURN QUERY SELECT (key & 4294967295)::int FROM unnest(claim) r, generate_series(lower(r), upper(r) - 1) key;
END $$;

-- The same by name.
CREATE FUNCTION claim_names(claim int8multirange) RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(n.name ORDER BY n.name), '{}') FROM claim_ids(claim) id JOIN namespaces n USING (id)
$$;

-- The namespaces that two claims share, by name, at most 100.
CREATE FUNCTION shared_names(of_cluster int, a int8multirange, a_wide boolean, b int8multirange, b_wide boolean)
    RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN a_wide AND b_wide THEN
        (SELECT coalesce(array_agg(s.name), '{}') FROM (
            SELECT n.name FROM namespaces n
             WHERE n.cluster_id = of_cluster AND a @> claim_key(of_cluster, n.id) AND b @> claim_key(of_cluster, n.id)
             ORDER BY n.name LIMIT 100) s)
    ELSE (claim_names(a * b))[1:100] END
$$;

-- A queued backup's place, from 1.
CREATE FUNCTION queue_position(of_seq bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT count(*) FROM backups b
      JOIN backups q ON q.cluster_id = b.cluster_id AND q.phase = 'Queued' AND (q.order_key, q.seq) <= (b.order_key, b.seq)
     WHERE b.seq = of_seq
$$;

-- How many active backups ahead of a queued one overlap it.
CREATE FUNCTION overlapping_ahead(of_seq bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT count(*) FROM backups b CROSS JOIN LATERAL (
        -- Two scopes of some namespaces meet in a row of claims each.
        SELECT c.seq FROM claims mine
          JOIN claims c ON c.cluster_id = b.cluster_id AND c.namespace_id = mine.namespace_id
           AND (c.rank, c.order_key, c.seq) < (1::smallint, b.order_key, b.seq) AND c.seq <> b.seq
         WHERE mine.seq = b.seq AND NOT b.wide
        UNION
        SELECT w.seq FROM backups w
         WHERE NOT b.wide AND w.cluster_id = b.cluster_id AND w.wide
           AND w.phase IN ('Queued', 'ReadyToStart', 'InProgress', 'Finalizing', 'FinalizingPartiallyFailed')
           AND in_the_way(w, b)
        UNION ALL
        SELECT q.seq FROM backups q
         WHERE b.wide AND q.cluster_id = b.cluster_id AND q.phase = 'Queued'
           AND (q.order_key, q.seq) < (b.order_key, b.seq) AND q.claim && b.claim
        UNION ALL
        SELECT r.seq FROM backups r
         WHERE b.wide AND r.cluster_id = b.cluster_id AND r.slot IS NOT NULL AND r.claim && b.claim
    ) ahead
     WHERE b.seq = of_seq
$$;

-- Backups as readers see them, all but the place in the queue.
CREATE VIEW backup_rows AS
SELECT b.seq, b.id, b.cluster_id, c.name AS cluster, b.name, b.phase, b.reason, b.message,
       b.labels, b.annotations, b.spec, b.version, b.order_key,
       b.created_at, b.enqueued_at, b.ready_at, b.started_at, b.completed_at, b.expires_at,
       b.wide, b.contents, b.attempt, b.max_attempts, b.slot, b.worker,
       b.warnings, b.errors, b.validation_errors, b.failure_reason,
       CASE WHEN b.scope = 'some' AND b.resolved THEN claim_names(b.claim) ELSE '{}' END AS names,
       CASE WHEN b.scope = 'everything-but' AND b.resolved
            THEN claim_names(claim_everything(b.cluster_id) - b.claim) ELSE '{}' END AS except_names,
       p.items_backed_up, p.total_items, p.bytes, p.updated_at AS progress_at,
       w.id AS blocker_id, w.name AS blocker_name,
       coalesce(shared_names(b.cluster_id, b.claim, b.wide, w.claim, w.wide), '{}') AS blocker_namespaces,
       CASE WHEN b.phase <> 'Queued' THEN ''
            WHEN NOT EXISTS (SELECT FROM workers k WHERE k.cluster_id = b.cluster_id AND k.expires_at > statement_timestamp())
            THEN 'NoWorker'
            WHEN NOT b.resolved THEN 'ScopeUnresolvable'
            WHEN w.slot IS NOT NULL THEN 'RunningOverlap'
            WHEN w.seq IS NOT NULL THEN 'EarlierQueuedOverlap'
            WHEN (SELECT count(*) FROM backups r WHERE r.cluster_id = b.cluster_id AND r.slot IS NOT NULL) >= c.concurrent_backups
            THEN 'NoFreeSlot'
            ELSE 'Dispatch' END AS wait_reason,
       CASE WHEN w.seq = b.blocked_by THEN b.blocked_since END AS waiting_since,
       c.concurrent_backups
  FROM backups b
  JOIN clusters c ON c.id = b.cluster_id
  LEFT JOIN progress p ON p.seq = b.seq
  -- The stored witness while it is in the way, else the one that the rule finds now.
  LEFT JOIN LATERAL (
        SELECT s.seq FROM backups s WHERE s.seq = b.blocked_by AND in_the_way(s, b)
        ) stored ON b.phase = 'Queued'
  LEFT JOIN LATERAL (
        SELECT o.seq FROM overlapping_predecessor(b.cluster_id, b.seq, b.order_key, b.wide, b.claim) o
        ) found ON b.phase = 'Queued' AND stored.seq IS NULL
  LEFT JOIN backups w ON w.seq = coalesce(stored.seq, found.seq);

INSERT INTO clusters (name) VALUES ('default');
INSERT INTO slots (cluster_id, slot) SELECT id, 1 FROM clusters;
