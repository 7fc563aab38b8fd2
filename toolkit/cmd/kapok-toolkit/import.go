package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/kapok-dev/kapok/toolkit/importcrd"

	"github.com/spf13/pflag"
)

const importHelp = `Make Go types from CustomResourceDefinitions: of files, or of the server of the kubeconfig.

Usage:
  kapok import -f FILE|DIRECTORY|- ...
  kapok import NAME... [--group GROUP]...

Each version becomes a package in the module of the working directory, DIR/GROUP/VERSION, with types, markers, deep copies
and AddToScheme. Then the definitions are generated from the types, and compared with the imported ones. What Go types
cannot say is listed.

NAME is the name of a definition on the server, such as crontabs.stable.example.com. To import from a chart:
helm template CHART --set crds.enabled=true | kapok import -f -

Examples:
  kapok import -f config/crd
  kapok import certificates.cert-manager.io issuers.cert-manager.io
  kapok import --group cert-manager.io --dir internal/apis

Flags:
`

func importCommand(args []string) int {
	o := importcrd.Options{Stdin: os.Stdin}
	flags := pflag.NewFlagSet("kapok import", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	flags.StringSliceVarP(&o.Files, "filename", "f", nil, "file or directory with definitions; - is standard input")
	flags.StringSliceVar(&o.Groups, "group", nil, "import all definitions of this group from the server")
	flags.StringVar(&o.Dir, "dir", "apis", "directory for the packages")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&o.Context, "context", "", "context of the kubeconfig (default its current context)")
	help := flags.BoolP("help", "h", false, "help for import")
	if err := flags.Parse(args); err != nil {
		return fail(exitUsage, err)
	}
	o.Names = flags.Args()
	switch {
	case *help:
		fmt.Print(importHelp + flags.FlagUsages())
		return 0
	case len(o.Files)+len(o.Names)+len(o.Groups) == 0:
		return fail(exitUsage, fmt.Errorf("nothing to import: give -f FILE, the name of a definition, or --group GROUP"))
	}
	ctx, stop := interruptible()
	defer stop()
	result, err := importcrd.Run(ctx, o)
	if err != nil {
		return fail(exitFailure, err)
	}
	for _, name := range result.Written {
		fmt.Println(name)
	}
	for _, name := range slices.Sorted(maps.Keys(result.Differences)) {
		fmt.Fprintf(os.Stderr, "kapok: %s: Go types cannot say all of it. A definition that is generated from them differs:\n", name)
		for _, difference := range result.Differences[name] {
			fmt.Fprintf(os.Stderr, "  %s\n", difference)
		}
	}
	return 0
}
