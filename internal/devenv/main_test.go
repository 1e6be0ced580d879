package devenv

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

// parentVariable makes the test binary the parent of all servers instead of
// running the tests: see TestNothingOutlivesAKilledParent.
const parentVariable = "BERTH_DEVENV_TEST_PARENT"

// orphanVariable makes the test binary wait until it is orphaned: see
// TestOrphanedTellsOfParentAndGrandparent.
const orphanVariable = "BERTH_DEVENV_TEST_ORPHAN"

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		orphaned := Orphaned()
		fmt.Println(os.Getpid())
		<-orphaned
		os.Exit(0)
	}
	// What these tests are about is starting servers, not using given ones.
	os.Unsetenv("BERTH_DATABASE_URL")
	os.Unsetenv("BERTH_POOLER_URL")
	os.Unsetenv("BERTH_KUBECONFIG")
	if os.Getenv(parentVariable) != "" {
		if err := beParent(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(RunTests(m))
}

// beParent starts all servers, prints the folders they run in and waits to be
// killed.
func beParent(ctx context.Context) error {
	pg, err := StartPostgres(ctx, PostgresOptions{})
	if err != nil {
		return err
	}
	pooler, err := StartPooler(ctx, pg)
	if err != nil {
		return err
	}
	k, err := StartKubernetes(ctx, KubernetesOptions{})
	if err != nil {
		return err
	}
	data, err := dataFolder(ctx, pg)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode([]string{data, pooler.folder.join("users"), k.Kubeconfig}); err != nil {
		return err
	}
	select {}
}

// dataFolder asks the server where it keeps its data.
func dataFolder(ctx context.Context, pg *Postgres) (string, error) {
	conn, err := pgx.Connect(ctx, pg.URL)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	var path string
	return path, conn.QueryRow(ctx, "SHOW data_directory").Scan(&path)
}
