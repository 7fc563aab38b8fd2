package main

import "github.com/spf13/pflag"

// flagValues returns the flags of a command with their values, for /flagz. No flag of Kapok has a
// secret as its value: these are in files and in environment variables.
func flagValues(f *pflag.FlagSet) map[string]string {
	values := map[string]string{}
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" {
			values[flag.Name] = flag.Value.String()
		}
	})
	return values
}
