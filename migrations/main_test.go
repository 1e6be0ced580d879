package migrations_test

import (
	"os"
	"testing"

	"github.com/berth-backup/berth/internal/devenv"
)

func TestMain(m *testing.M) { os.Exit(devenv.RunTests(m)) }
