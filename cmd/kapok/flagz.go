package main

import (
	"regexp"

	"github.com/spf13/pflag"
)

// usualValue is the default that a flag with an empty value names in its description, because the
// part of the server that the flag configures fills it in. Defaults that are a phrase do not match.
var usualValue = regexp.MustCompile(`\(default ([^() ]+)\)$`)

// flagValues returns the flags of a command with their values, for /flagz. No flag of Kapok has a
// secret as its value: these are in files and in environment variables.
func flagValues(f *pflag.FlagSet) map[string]string {
	values := map[string]string{}
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Name == "help" {
			return
		}
		values[flag.Name] = flag.Value.String()
		if usual := usualValue.FindStringSubmatch(flag.Usage); usual != nil && !flag.Changed {
			values[flag.Name] = usual[1]
		}
	})
	return values
}
