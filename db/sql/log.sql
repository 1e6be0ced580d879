-- The log of one attempt of a backup, in its chunks; of its newest where @attempt is 0.
-- A backup without a log has one row without text.
SELECT coalesce(l.text, '') AS text
  FROM backups b
  LEFT JOIN backup_logs l ON l.seq = b.seq AND l.attempt = CASE WHEN @attempt::int > 0 THEN @attempt::int
       ELSE (SELECT max(n.attempt) FROM backup_logs n WHERE n.seq = b.seq) END
 WHERE b.id = @id
 ORDER BY l.chunk
