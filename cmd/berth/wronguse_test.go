package main

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/berth-backup/berth/db/dbtest"
	"github.com/berth-backup/berth/migrations"
)

// nowhere is the URL of a server that is not there.
const nowhere = "http://127.0.0.1:1"

// Whatever keeps a process from starting is said in one line.
func TestWrongUseIsSaidInOneLine(t *testing.T) {
	t.Parallel()
	good := dbtest.New(t).URL
	taken := listenHere(t)
	refused := listenHere(t)
	_ = refused.Close()
	kubeconfig := kubeconfigOf(t, nowhere)
	for name, test := range map[string]struct {
		environment []string
		args        string
		want        []string
	}{
		"no such command":        {nil, "servre", []string{`unknown command "servre"`, "server"}},
		"no such subcommand":     {nil, "migrate upp", []string{`unknown command "upp"`}},
		"migrate alone":          {nil, "migrate", []string{"berth migrate up, down or version"}},
		"no such flag":           {nil, "server --nope", []string{"unknown flag: --nope"}},
		"an argument too many":   {nil, "server now", []string{`unknown command "now"`}},
		"a flag's value":         {nil, "server --reap-interval often", []string{`"often"`, "--reap-interval"}},
		"a variable's value":     {[]string{"BERTH_REAP_INTERVAL=x"}, "server", []string{`BERTH_REAP_INTERVAL="x"`}},
		"two variables' values":  {[]string{"BERTH_REAP_INTERVAL=x", "BERTH_LEASE_GRACE=y"}, "worker", []string{`BERTH_REAP_INTERVAL="x"`, `BERTH_LEASE_GRACE="y"`}},
		"a negative interval":    {nil, "server --reap-interval -1s --database-url " + good, []string{"--reap-interval", "positive"}},
		"a negative cap":         {nil, "worker --max-backups -1 --database-url " + good, []string{"--max-backups", "from 0"}},
		"a cap that no row has":  {nil, "worker --max-backups 5000000000 --database-url " + good, []string{"--max-backups", "to 10000"}},
		"a server that spins":    {nil, "server --recheck-interval 1ns --database-url " + good, []string{"--recheck-interval", "100ms"}},
		"a worker that spins":    {nil, "worker --recheck-interval 0 --database-url " + good, []string{"--recheck-interval", "100ms"}},
		"a lease that cannot be": {nil, "worker --lease-ttl 5s --database-url " + good, []string{"--lease-ttl", "renew + margin < ttl", "20s", "5s"}},
		"an address":             {[]string{"BERTH_LISTEN=nonsense"}, "server --database-url " + good, []string{"listen", "nonsense"}},
		"an address in use":      {nil, "server --listen " + taken.Addr().String() + " --database-url " + good, []string{"listen", "address already in use"}},
		"no database":            {nil, "server", []string{"--database-url", "BERTH_DATABASE_URL"}},
		"a database URL":         {nil, "server --database-url nonsense://", []string{"database URL"}},
		"a kubeconfig":           {nil, "worker --kubeconfig /does/not/exist --database-url " + good, []string{"kubeconfig", "/does/not/exist"}},
		"KUBECONFIG":             {[]string{"KUBECONFIG=/does/not/exist"}, "worker --database-url " + good, []string{"kubeconfig", "/does/not/exist"}},
		"no kubeconfig":          {[]string{"HOME=/does/not/exist"}, "worker --database-url " + good, []string{"--kubeconfig", "KUBECONFIG"}},
		"a store's scheme":       {nil, "server --storage-url gopher://x --database-url " + good, []string{"--storage-url", "gopher"}},
		"no steps back":          {nil, "migrate down --steps 0 --database-url " + good, []string{"--steps"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			saysInOneLine(t, startProcess(t, test.environment, strings.Fields(test.args)...), test.want...)
		})
	}

	databases := map[string]struct {
		url  string
		want []string
	}{
		"refuses":  {"postgres://berth@" + refused.Addr().String() + "/berth", []string{"connect", "refused"}},
		"password": {postgresThat(t, refusesPasswords), []string{"connect", "password authentication failed"}},
		"silent":   {postgresThat(t, saysNothing), []string{"connect", "timeout"}},
		"missing":  {otherDatabase(t, good, "berth_is_not_here"), []string{"connect", `"berth_is_not_here" does not exist`}},
		"no host":  {"postgres://berth@host.invalid/berth", []string{"connect", "host.invalid"}},
	}
	for name, test := range databases {
		for _, command := range []string{"server", "worker", "migrate up", "migrate version"} {
			t.Run("a database that "+name+", "+command, func(t *testing.T) {
				t.Parallel()
				environment := []string{"BERTH_DATABASE_URL=" + test.url, "KUBECONFIG=" + kubeconfig}
				saysInOneLine(t, startProcess(t, environment, strings.Fields(command)...), test.want...)
			})
		}
	}
}

func TestAnOlderSchemaIsRefusedWithTheCommandThatMendsIt(t *testing.T) {
	t.Parallel()
	kubeconfig := kubeconfigOf(t, nowhere)
	for name, test := range map[string]struct {
		version int
		prepare func(t *testing.T) (databaseURL string)
	}{
		"never migrated": {0, func(t *testing.T) string { return dbtest.Empty(t) }},
		"one step taken back": {migrations.Latest - 1, func(t *testing.T) string {
			databaseURL := dbtest.New(t).URL
			runs(t, databaseURL, "migrate", "down")
			return databaseURL
		}},
		"all taken back": {0, func(t *testing.T) string {
			databaseURL := dbtest.New(t).URL
			runs(t, databaseURL, "migrate", "down", "--steps", fmt.Sprint(migrations.Latest))
			return databaseURL
		}},
		"its version was asked for": {0, func(t *testing.T) string {
			databaseURL := dbtest.Empty(t)
			runs(t, databaseURL, "migrate", "version")
			return databaseURL
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environment := []string{"BERTH_DATABASE_URL=" + test.prepare(t), "KUBECONFIG=" + kubeconfig}
			saysInOneLine(t, startProcess(t, environment, "worker"), fmt.Sprintf("version %d", test.version), "run: berth migrate up")
		})
	}
}

func TestANewerSchemaIsGoodEnough(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.execute("update schema_migrations set version = version + 1")
	h.startServer()
	shop := h.namespace("shop", 1)
	h.startWorker().workerID()
	h.awaitPhase(h.post("a", shop), "Completed")
}

func TestABrokenOffMigrationIsSaidInOneLine(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.execute("update schema_migrations set dirty = true")
	saysInOneLine(t, startProcess(t, h.environment, "server"), "broke off", "by hand")
	saysInOneLine(t, startProcess(t, h.environment, "migrate", "up"), "broke off", "by hand")
	saysInOneLine(t, h.startWorker(), "broke off", "by hand")
}

// saysInOneLine checks that a process ends soon, with 1, and says why.
func saysInOneLine(t *testing.T, p *process, want ...string) {
	t.Helper()
	began := time.Now()
	if code := p.awaitEnd(); code != 1 {
		t.Errorf("it ended with %d", code)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	text := p.output.String()
	if !strings.HasPrefix(text, "berth: ") || strings.Count(text, "\n") != 1 || strings.ContainsAny(text, "\t\r") {
		t.Errorf("it said %q, want one line", text)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("it said %q, nothing of %q", text, w)
		}
	}
}

func listenHere(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// postgresThat gives the URL of a server that treats each connection so.
func postgresThat(t *testing.T, treats func(net.Conn)) (databaseURL string) {
	t.Helper()
	l := listenHere(t)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go treats(conn)
		}
	}()
	return "postgres://berth:wrong@" + l.Addr().String() + "/berth?sslmode=disable"
}

// saysNothing waits until the client has had enough.
func saysNothing(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for buffer := make([]byte, 512); ; {
		if _, err := conn.Read(buffer); err != nil {
			return
		}
	}
}

// refusesPasswords asks for a password and takes none.
func refusesPasswords(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	backend := pgproto3.NewBackend(conn, conn)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return
	}
	backend.Send(&pgproto3.AuthenticationCleartextPassword{})
	if backend.Flush() != nil || backend.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
		return
	}
	if _, err := backend.Receive(); err != nil {
		return
	}
	backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: `password authentication failed for user "berth"`})
	_ = backend.Flush()
}

func otherDatabase(t *testing.T, databaseURL, name string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + filepath.Base(name)
	return u.String()
}
