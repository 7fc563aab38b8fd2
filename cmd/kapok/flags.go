package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// sift splits a command line into known arguments and unknown flags; the values of unknown flags
// are dropped. It accepts one dash instead of two, an underscore instead of a dash, and a digit
// after a flag of one letter, as in -v4. It is for programs that are called with the flags of
// another program.
func sift(f *pflag.FlagSet, args []string) (known, unknown []string) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" || len(arg) < 2 || arg[0] != '-' {
			known = append(known, arg)
			continue
		}
		name, value, assigned := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		name = strings.ReplaceAll(name, "_", "-")
		flag := f.Lookup(name)
		if flag == nil && arg[1] != '-' && len(arg) > 2 && '0' <= arg[2] && arg[2] <= '9' && f.ShorthandLookup(arg[1:2]) != nil {
			known = append(known, arg)
			continue
		}
		if flag != nil || name == "help" || arg == "-h" {
			arg := "--" + name
			if assigned {
				arg += "=" + value
			}
			known = append(known, arg)
		} else {
			unknown = append(unknown, "--"+name)
		}
		wants := flag == nil || flag.NoOptDefVal == ""
		if !assigned && wants && name != "help" && arg != "-h" && len(args) > 0 && (flag != nil || !strings.HasPrefix(args[0], "-")) {
			if flag != nil {
				known = append(known, args[0])
			}
			args = args[1:]
		}
	}
	return known, unknown
}

// accept has the flags of another program taken that have no meaning here. They are given a line
// each, as "name" or, where they need no value, "name bool"; they are not shown in the help.
func accept(f *pflag.FlagSet, lines string) {
	for line := range strings.Lines(lines) {
		name, isBool := strings.CutSuffix(strings.TrimSpace(line), " bool")
		if f.Lookup(name) != nil {
			continue
		}
		flag := f.VarPF(anything{}, name, "", "")
		flag.Hidden = true
		if isBool {
			flag.NoOptDefVal = "true"
		}
	}
}

// anything is the value of a flag that does nothing.
type anything struct{}

func (anything) Type() string     { return "" }
func (anything) String() string   { return "" }
func (anything) Set(string) error { return nil }
