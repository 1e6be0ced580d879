package migrations

import "testing"

// The versions are as those servers tell them; that Postgres itself is accepted
// each other test shows too.
func TestOnlyPostgresIsAccepted(t *testing.T) {
	t.Parallel()
	for version, test := range map[string]struct {
		number int
		want   bool
	}{
		"PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0-14) 12.2.0, 64-bit":    {150018, true},
		"PostgreSQL 18.1 on x86_64-linux, compiled by gcc-12.2.0, 64-bit":                                                        {180001, true},
		"PostgreSQL 14.9 on aarch64-unknown-linux-gnu, compiled by gcc, 64-bit":                                                  {140009, false},
		"CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu, built 2024/05/15 21:28:29, go1.22.2 X:nocoverageredesign)":                {130000, false},
		"CockroachDB CCL v99.1.0 (x86_64-pc-linux-gnu)":                                                                          {160000, false},
		"PostgreSQL 11.2-YB-2.20.1.3-b0 on x86_64-pc-linux-gnu, compiled by clang version 16.0.6, 64-bit":                        {110002, false},
		"PostgreSQL 15.2-YB-2.25.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 17.0.6, 64-bit":                        {150002, false},
		"PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat 3.4.2-6.fc3), Redshift 1.0.38": {80002, false},
	} {
		if err := accepts(version, test.number); (err == nil) != test.want {
			t.Errorf("%s: %v", version, err)
		}
	}
}
