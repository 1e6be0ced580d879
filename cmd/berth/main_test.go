package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/berth-backup/berth/db/dbtest"
)

// asBerth makes the test binary berth itself: the processes of these tests are
// built as the tests are, with the race detector where they have it.
const asBerth = "BERTH_TEST_AS_BERTH"

func TestMain(m *testing.M) {
	if os.Getenv(asBerth) != "" {
		os.Unsetenv(asBerth)
		main()
		os.Exit(0)
	}
	// Of the buckets, which take any.
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	// These tests wait for others more than they work.
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	code := dbtest.RunTests(m)
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		fmt.Fprintln(os.Stderr, "a process outlives the tests:", pid, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
