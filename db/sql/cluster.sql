SELECT id, concurrent_backups, inventory_version, inventory_synced_at IS NOT NULL AS synced
  FROM clusters WHERE name = @name
