module github.com/berth-backup/berth

go 1.26.0
