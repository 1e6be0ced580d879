SELECT id, concurrent_backups, item_block_worker_count, inventory_version, inventory_synced_at IS NOT NULL AS synced
  FROM clusters WHERE name = @name
