package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// A switches is the value of a flag for a map of names to on or off, as name=true,name=false. A
// name alone is on.
type switches map[string]bool

func (*switches) Type() string { return "mapStringBool" }

func (s *switches) String() string {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(*s)) {
		items = append(items, fmt.Sprintf("%s=%t", name, (*s)[name]))
	}
	return strings.Join(items, ",")
}

// Set implements pflag.Value. It adds to earlier values.
func (s *switches) Set(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, value, stated := strings.Cut(item, "=")
		on := true
		if stated {
			var err error
			if on, err = strconv.ParseBool(value); err != nil {
				return fmt.Errorf("%s is %q: want true or false", name, value)
			}
		}
		if *s == nil {
			*s = switches{}
		}
		(*s)[name] = on
	}
	return nil
}

// releaseFlags adds --emulated-version and --feature-gates.
func releaseFlags(f *pflag.FlagSet, release *string, gates *map[string]bool) {
	f.StringVar(release, "emulated-version", "", "release of Kubernetes that the server behaves as, with its versions of kinds and its feature gates: 1.34, 1.35, 1.36 or 1.37 (default 1.37)")
	f.Var((*switches)(gates), "feature-gates", "feature gates of Kubernetes, as NAME=true or NAME=false; all can have their default, and those that switch fields, rules and pages of the server another value; may be repeated")
}

// runtimeConfigFlag adds --runtime-config.
func runtimeConfigFlag(f *pflag.FlagSet, config *map[string]bool) {
	f.Var((*switches)(config), "runtime-config", "versions of built-in kinds to turn on or off: api/all, api/ga, api/beta, api/alpha, GROUP/VERSION (api/v1 is the core group) or GROUP/VERSION/RESOURCE, the last of which is the strongest, like batch/v1/cronjobs=false")
}
