package main

import (
	"strings"
	"testing"
	"time"
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
		"worker": `database-url kubeconfig cluster data storage-url concurrent-backups max-backups recheck-interval
			lease-ttl lease-renew lease-margin lease-grace reap-interval shutdown-grace mirror-qps`,
		"migrate up": "database-url",
	} {
		found, _, err := rootCommand().Find(strings.Fields(command))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(names) {
			if found.Flag(name) == nil {
				t.Errorf("berth %s has no --%s", command, name)
			}
		}
	}
}
