SELECT name FROM clusters ORDER BY id
