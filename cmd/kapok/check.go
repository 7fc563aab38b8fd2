package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/check"

	"github.com/spf13/cobra"
)

func newCheck() *cobra.Command {
	o := check.Options{}
	var as output
	c := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Validate manifests as a server does, without one",
		Long: `Validate manifests as a server does, without one.

The objects in the files are created on a server that runs in memory: first namespaces and
CustomResourceDefinitions, then the others in their order, which may use these definitions. An
unknown field is an error. Webhooks are validated, and not called. The exit code is 1 if an object
is rejected, or if there is none.`,
		Example: `  kapok check -f config/crd/bases -f config/samples
  kubectl kustomize config/default | kapok check --ignore-missing-kinds -f -`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(o.Files) == 0 {
				return errors.New("-f is required: name a file, a directory or - for the standard input")
			}
			o.Stdin = c.InOrStdin()
			findings, n, err := check.Run(c.Context(), o)
			if err != nil {
				return failed(err)
			}
			return failed(printFindings(c.OutOrStdout(), as, findings, n))
		},
	}
	c.Flags().BoolVar(&o.IgnoreMissingKinds, "ignore-missing-kinds", false, "leave out objects of kinds that neither the server nor the manifests define, like Certificate")
	c.Flags().StringArrayVarP(&o.Files, "filename", "f", nil, "file or directory with manifests, or - for the standard input; may be repeated")
	as.flag(c)
	return c
}

// printFindings prints what a server rejects, and returns an error if that is anything.
func printFindings(out io.Writer, as output, findings []check.Finding, objects int) error {
	if as == asJSON {
		if findings == nil {
			findings = []check.Finding{}
		}
		if err := printJSON(out, findings); err != nil {
			return err
		}
	} else {
		for _, f := range findings {
			fmt.Fprintln(out, f)
		}
		if len(findings) == 0 && objects > 0 {
			fmt.Fprintf(out, "valid objects: %d\n", objects)
		}
	}
	switch {
	case len(findings) > 0:
		return fmt.Errorf("invalid manifests: %d", len(findings))
	case objects == 0:
		return errors.New("the files have no objects")
	}
	return nil
}
