SELECT version, dirty FROM schema_migrations
