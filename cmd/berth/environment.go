package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// fromEnvironment sets each flag that the command line left out from its
// variable: --database-url from BERTH_DATABASE_URL. An empty variable counts as
// unset; --help is for the command line alone.
func fromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var problems []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := variable(f.Name)
		value, ok := lookup(name)
		if f.Changed || !ok || value == "" || f.Name == "help" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			problems = append(problems, fmt.Errorf("%s=%q: %w", name, value, err))
		}
	})
	return errors.Join(problems...)
}

func variable(flag string) string {
	return "BERTH_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
