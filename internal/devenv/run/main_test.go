package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// mainVariable makes the test binary the command itself.
const mainVariable = "BERTH_RUN_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// runs returns the command run with the arguments, in an environment that names
// no server.
func runs(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stderr = os.Stderr
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "BERTH_DATABASE_URL=") || strings.HasPrefix(v, "BERTH_POOLER_URL=") || strings.HasPrefix(v, "BERTH_KUBECONFIG=")
	})
	cmd.Env = append(cmd.Env, mainVariable+"=1")
	return cmd
}

// code returns the exit code that err of Run or Wait tells of.
func code(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatal(err)
	}
	return exit.ExitCode()
}

func TestCommandFindsBothServers(t *testing.T) {
	t.Parallel()
	cmd := runs(t, "--", "sh", "-c", `echo "$BERTH_DATABASE_URL"; echo "$BERTH_KUBECONFIG"; test -f "$BERTH_KUBECONFIG"`)
	out, err := cmd.Output()
	if code(t, err) != 0 {
		t.Fatal(err)
	}
	url, kubeconfig, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if !strings.HasPrefix(url, "postgres://") {
		t.Errorf("BERTH_DATABASE_URL = %q", url)
	}
	if _, err := os.Stat(filepath.Dir(kubeconfig)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left behind: %v", filepath.Dir(kubeconfig), err)
	}
}

func TestCommandFindsThePoolerItAsksFor(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"-pooler": "mode=cache_describe\n", "-pooler=false": "none\n"} {
		out, err := runs(t, "-no-kubernetes", flag, "--", "sh", "-c", `echo "${BERTH_POOLER_URL:-none}"`).Output()
		if code(t, err) != 0 {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(out), want) {
			t.Errorf("%s: BERTH_POOLER_URL = %q, want one that ends in %q", flag, out, want)
		}
	}
}

func TestExitCodeIsTheCommands(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -KILL $$": 137} {
		if got := code(t, runs(t, "-no-kubernetes", "--", "sh", "-c", command).Run()); got != want {
			t.Errorf("%s: %d, want %d", command, got, want)
		}
	}
}

func TestDurablePostgresReachesTheDisk(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{"-no-kubernetes": "off", "-no-kubernetes -durable": "on"} {
		cmd := runs(t, append(strings.Fields(arguments), "--", "sh", "-c", `echo "$BERTH_DATABASE_URL"; cat`)...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		url, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if got := fsync(t, strings.TrimSpace(url)); got != want {
			t.Errorf("%s: fsync is %s, want %s", arguments, got, want)
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		if got := code(t, cmd.Wait()); got != 0 {
			t.Errorf("%s: exit code %d", arguments, got)
		}
	}
}

func fsync(t *testing.T, url string) (setting string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(t.Context(), "SHOW fsync").Scan(&setting); err != nil {
		t.Fatal(err)
	}
	return setting
}

func TestMissingCommandIsAnError(t *testing.T) {
	t.Parallel()
	if got := code(t, runs(t, "-no-kubernetes", "--", "/no/such/command").Run()); got != 1 {
		t.Errorf("exit code %d, want 1", got)
	}
}

func TestSignalReachesTheCommand(t *testing.T) {
	t.Parallel()
	cmd := runs(t, "-no-kubernetes", "--", "sh", "-c", `trap "exit 7" TERM; echo up; while :; do sleep 0.01; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := code(t, cmd.Wait()); got != 7 {
		t.Errorf("exit code %d, want the command's 7", got)
	}
}
