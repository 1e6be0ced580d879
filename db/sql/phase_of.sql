-- In which phase a backup is under a fence; no row where the fence is another's.
SELECT phase FROM backups WHERE seq = @seq AND fence = @fence
