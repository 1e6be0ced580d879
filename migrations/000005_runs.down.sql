DROP TABLE archives;
DROP TABLE backup_logs;
