DELETE FROM workers WHERE id = @worker
