-- Whether a storage location answers, as a worker found. A change is an event of
-- the cluster and wakes its dispatchers.
WITH instant AS MATERIALIZED (SELECT clock_timestamp() AS at),
former AS MATERIALIZED (
    SELECT cluster_id, name, available FROM storage_locations WHERE cluster_id = @cluster_id AND name = @name FOR NO KEY UPDATE),
checked AS (
    UPDATE storage_locations l
       SET available = @available, message = @message, checked_at = i.at, reached_at = CASE WHEN @available THEN i.at ELSE l.reached_at END
      FROM former f, instant i
     WHERE l.cluster_id = f.cluster_id AND l.name = f.name
    RETURNING l.cluster_id, l.name, l.available, f.available AS was_available, l.message),
logged AS (
    INSERT INTO events (at, cluster_id, reason, message, detail)
    SELECT i.at, c.cluster_id, CASE WHEN c.available THEN 'StorageAvailable' ELSE 'StorageUnavailable' END, c.message,
           jsonb_build_object('storageLocation', c.name)
      FROM checked c, instant i WHERE c.available <> c.was_available)
SELECT (SELECT count(*) FROM checked), (SELECT count(pg_notify('berth_queue', cluster_id::text)) FROM checked WHERE available AND NOT was_available)
