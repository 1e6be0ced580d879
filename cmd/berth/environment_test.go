package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestFlagsComeFromTheEnvironmentWhereTheCommandLineLeavesThemOut(t *testing.T) {
	command := serverCommand()
	flags := command.Flags()
	command.InitDefaultHelpFlag()
	if err := flags.Parse([]string{"--listen", "127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{
		"BERTH_LISTEN": "127.0.0.1:2", "BERTH_REAP_INTERVAL": "7s", "BERTH_LEASE_GRACE": "", "BERTH_HELP": "nonsense", "BERTH_NOTHING": "x",
	}
	err := fromEnvironment(flags, func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := flags.GetString("listen"); got != "127.0.0.1:1" {
		t.Errorf("--listen is %s", got)
	}
	if got, _ := flags.GetDuration("reap-interval"); got != 7*time.Second {
		t.Errorf("--reap-interval is %s", got)
	}
	if got, _ := flags.GetDuration("lease-grace"); got != 15*time.Second {
		t.Errorf("--lease-grace is %s", got)
	}
}

// Every flag of the design has its name.
func TestEveryFlagHasItsName(t *testing.T) {
	for command, names := range map[string]string{
		"server": "database-url listen data storage-url recheck-interval lease-grace reap-interval",
		"worker": `database-url kubeconfig cluster data storage-url concurrent-backups item-block-worker-count max-backups recheck-interval
			lease-ttl lease-renew lease-margin lease-grace reap-interval shutdown-grace mirror-qps velero-namespace
			metrics-listen page-size client-qps client-burst memory`,
		"migrate up":    "database-url",
		"backup verify": "database-url cluster",
	} {
		found, _, err := rootCommand().Find(strings.Fields(command))
		if err != nil {
			t.Fatal(err)
		}
		var flags []string
		for _, set := range []*pflag.FlagSet{found.LocalFlags(), found.InheritedFlags()} {
			set.VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		}
		want := strings.Fields(names)
		slices.Sort(flags)
		slices.Sort(want)
		if diff := cmp.Diff(want, flags); diff != "" {
			t.Errorf("the flags of berth %s (-want +got):\n%s", command, diff)
		}
	}
}
