// Command kapok-toolkit makes and extends projects of operators, and generates their code and manifests.
// Command kapok runs it for kapok init, create, edit and generate. It is a program of its own, so that
// servers do not link the libraries of scaffolding and generators.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"
	"github.com/kapok-dev/kapok/toolkit/scaffold"
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	switch {
	case len(args) > 0 && args[0] == "generate":
		return generateCommand(args[1:])
	case len(args) > 0 && slices.Contains(scaffold.Commands, args[0]):
		if err := scaffold.Run(scaffold.Options{Args: args, Version: version(), Source: source()}); err != nil {
			return fail(exitFailure, err)
		}
		return 0
	}
	return fail(exitUsage, fmt.Errorf("want one of the commands %v and generate", scaffold.Commands))
}

func fail(code int, err error) int {
	fmt.Fprintf(os.Stderr, "kapok: %v\n", err)
	return code
}

const generateHelp = `Generate the code and the manifests of a project from its Go types and their markers.

Usage:
  kapok generate [--check] [OPTION...]

The options are those of controller-gen: object, crd, rbac, webhook, applyconfiguration, schemapatch with
their arguments, paths=..., output:.... Without options they are those of the Makefile of a project: deep
copies beside the types, definitions in config/crd/bases, config/rbac/role.yaml and
config/webhook/manifests.yaml.

A marker that no generator knows is an error. Nothing is written if there is an error, and no file that
does not change.

Flags:
      --check   change nothing, and fail if a file is not current
  -h, --help    help for generate
`

func generateCommand(args []string) int {
	o := generate.Options{}
	for _, arg := range args {
		switch {
		case arg == "-h" || arg == "--help":
			fmt.Print(generateHelp)
			return 0
		case arg == "--check":
			o.Check = true
		case len(arg) > 0 && arg[0] == '-':
			return fail(exitUsage, fmt.Errorf("unknown flag %s; kapok generate --help lists all", arg))
		default:
			o.Args = append(o.Args, arg)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	result, err := generate.Run(ctx, o)
	if err != nil {
		return fail(exitFailure, err)
	}
	for _, name := range result.Written {
		if !o.Check {
			fmt.Println(name)
		}
	}
	for _, name := range result.Orphans {
		fmt.Fprintf(os.Stderr, "kapok: %s: no type has this definition; remove the file if the kind is gone\n", name)
	}
	if o.Check && len(result.Written) > 0 {
		return fail(exitFailure, fmt.Errorf("not current: %s; run kapok generate", strings.Join(result.Written, ", ")))
	}
	return 0
}

// version returns the version of this module if it is a published one, and "" for builds of a clone.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return ""
	}
	return info.Main.Version
}

// source returns the directory of the clone of Kapok in which this program was built, "" if there is
// none any more, or if the program was built with -trimpath.
func source() string {
	if dir := os.Getenv("KAPOK_SOURCE"); dir != "" {
		return dir
	}
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return ""
	}
	dir := filepath.Join(filepath.Dir(file), "..", "..", "..")
	if _, err := os.Stat(filepath.Join(dir, "kapoktest", "doc.go")); err != nil {
		return ""
	}
	return dir
}
