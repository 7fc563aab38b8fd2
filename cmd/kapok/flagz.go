package main

import (
	"regexp"

	"github.com/spf13/pflag"
)

// flagValues returns the flags of a command with their values, for /flagz. No flag of Kapok has a
// secret as its value: these are in files and in environment variables.
//
// Flags whose default the part of the server fills in that they configure have an empty value, and
// name the default at the end of their description. Defaults that are a phrase are left empty.
func flagValues(f *pflag.FlagSet) map[string]string {
	usual := regexp.MustCompile(`\(default ([^() ]+)\)$`)
	values := map[string]string{}
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Name == "help" {
			return
		}
		values[flag.Name] = flag.Value.String()
		if found := usual.FindStringSubmatch(flag.Usage); found != nil && !flag.Changed {
			values[flag.Name] = found[1]
		}
	})
	return values
}
