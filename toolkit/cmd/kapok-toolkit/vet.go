package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/vet"

	"golang.org/x/tools/go/analysis/unitchecker"
)

const vetHelp = `Find mistakes in the Go types of an API and their markers.

Usage:
  kapok vet [crd:OPTION=VALUE,...] [PACKAGE...]
  go vet -vettool=$(command -v kapok-toolkit) ./...

It generates the CustomResourceDefinitions of the packages (default ./...) in memory, and checks them
as a server does: keys of lists, defaults, rules in CEL and their cost. Besides, it finds
markers that are unknown, or where they have no effect, limits that no value satisfies, columns
and scale paths that lead to no field, and fields with the same JSON name. Each problem is a line
with its position.
Nothing is written. The exit code is 1 if there is a problem.
`

func vetCommand(args []string) int {
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		fmt.Print(vetHelp)
		return 0
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			return fail(exitUsage, fmt.Errorf("unknown flag %s", arg))
		}
	}
	ctx, stop := interruptible()
	defer stop()
	problems, err := vet.Run(ctx, args)
	if err != nil {
		return fail(exitFailure, err)
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		return exitFailure
	}
	return 0
}

// isVettool reports whether go vet has started this program as a -vettool.
func isVettool(args []string) bool {
	return len(args) > 0 && (args[0] == "-V=full" || args[0] == "-flags" || strings.HasSuffix(args[len(args)-1], ".cfg"))
}

// vettool does what go vet asks for, and ends the process.
func vettool() { unitchecker.Main(vet.Analyzer) }
