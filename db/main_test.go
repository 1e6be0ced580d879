package db_test

import (
	"os"
	"testing"

	"github.com/berth-backup/berth/db/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.RunTests(m)) }
