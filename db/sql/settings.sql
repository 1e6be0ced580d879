-- A cluster's settings.
SELECT name AS cluster, concurrent_backups, item_block_worker_count, max_queued, settings_version AS version,
       paused_since, paused_until, pause_reason, paused_by, is_paused(c, statement_timestamp()) AS paused
  FROM clusters c WHERE c.id = @cluster_id
