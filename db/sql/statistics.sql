-- Whether Postgres has statistics of the queue, and whether it holds enough for them
-- to matter: ten pages are some fifty backups.
SELECT c.reltuples >= 0 AS known, pg_relation_size(c.oid) >= 10 * current_setting('block_size')::int AS worth_knowing
  FROM pg_class c WHERE c.oid = 'backups'::regclass
