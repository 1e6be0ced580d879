SELECT id, name, concurrent_backups, max_queued, inventory_version, inventory_synced_at IS NOT NULL AS synced
  FROM clusters WHERE name = @name
