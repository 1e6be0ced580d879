WITH bumped AS (
    UPDATE clusters SET inventory_version = inventory_version + 1,
           inventory_synced_at = CASE WHEN @complete THEN coalesce(inventory_synced_at, clock_timestamp()) ELSE inventory_synced_at END
     WHERE id = @cluster_id
    RETURNING inventory_version, inventory_synced_at IS NOT NULL AS synced),
logged AS (
    INSERT INTO events (at, cluster_id, reason, message)
    SELECT clock_timestamp(), @cluster_id, 'NamespacesChanged', @message)
SELECT inventory_version, synced, pg_notify('berth_queue', @cluster_id::int::text)::text FROM bumped
