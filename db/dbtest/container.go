package dbtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	// containerImage is what the tests run: the official image, or the stand-in
	// that deploy/images.sh builds where no image can be pulled.
	containerImage = "postgres:18"

	// containerRunLabel carries BERTH_TEST_RUN, so that whoever ran the tests
	// finds what a killed test process left behind.
	containerRunLabel = "berth-backup.test-run"

	containerStartLimit = 5 * time.Minute // the image may have to be pulled
	containerStopLimit  = 30 * time.Second
)

var containerPort = network.MustParsePort("5432/tcp")

// StartPostgresContainer starts a Postgres 18 for tests with the Docker engine of
// this machine, and returns the URL of its database on a free port of 127.0.0.1.
// Its data is not safe from a crash of the machine (fsync is off).
//
// stop removes the container with its data, also when ctx is done. A process that
// is killed leaves the container behind, labelled berth-backup.test-run with the
// value of BERTH_TEST_RUN: testcontainers' own reaper is off unless
// TESTCONTAINERS_RYUK_DISABLED says otherwise, as its image cannot be pulled
// everywhere.
func StartPostgresContainer(ctx context.Context) (url string, stop func() error, err error) {
	if _, set := os.LookupEnv("TESTCONTAINERS_RYUK_DISABLED"); !set {
		if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
			return "", nil, fmt.Errorf("turn testcontainers' reaper off: %w", err)
		}
	}
	const user, password, database = "berth", "berth", "berth"
	started, cancel := context.WithTimeout(ctx, containerStartLimit)
	defer cancel()
	c, err := testcontainers.Run(started, containerImage,
		testcontainers.WithEnv(map[string]string{
			"POSTGRES_USER":     user,
			"POSTGRES_PASSWORD": password,
			"POSTGRES_DB":       database,
		}),
		testcontainers.WithCmd("-c", "fsync=off", "-c", "max_connections=200"),
		testcontainers.WithExposedPorts(containerPort.String()),
		testcontainers.WithHostConfigModifier(publishOnLoopback),
		testcontainers.WithLabels(map[string]string{containerRunLabel: os.Getenv("BERTH_TEST_RUN")}),
		// The first time is the server that makes the database, on its socket alone.
		testcontainers.WithWaitStrategyAndDeadline(containerStartLimit,
			wait.ForLog("database system is ready to accept connections").
				WithOccurrence(2).WithPollInterval(50*time.Millisecond)),
	)
	stop = func() error { return removeContainer(c) }
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("start %s: %w", containerImage, err), stop())
	}
	port, err := c.MappedPort(started, containerPort.String())
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("port of %s: %w", containerImage, err), stop())
	}
	return containerURL(user, password, database, port.Port()), stop, nil
}

// publishOnLoopback publishes the port on a free one of 127.0.0.1 alone, as the
// password is no secret. So the host is known too: testcontainers would name the
// gateway of Docker's network where the tests themselves run in a container.
func publishOnLoopback(host *container.HostConfig) {
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	host.PortBindings = network.PortMap{containerPort: {{HostIP: loopback}}}
}

func containerURL(user, password, database, port string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(user, password),
		Host:     net.JoinHostPort("127.0.0.1", port),
		Path:     database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// removeContainer has a context of its own: what it removes outlives the one that
// it was started with.
func removeContainer(c *testcontainers.DockerContainer) error {
	ctx, cancel := context.WithTimeout(context.Background(), containerStopLimit)
	defer cancel()
	// Nothing in it is worth an orderly end.
	if err := testcontainers.TerminateContainer(c, testcontainers.StopContext(ctx), testcontainers.StopTimeout(0)); err != nil {
		return fmt.Errorf("remove %s: %w", containerImage, err)
	}
	return nil
}
