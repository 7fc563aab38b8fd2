//go:build nokubectl

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// newKubectl is the command that says that kubectl is not there.
func newKubectl() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Hidden:             true,
		DisableFlagParsing: true,
		Run:                func(_ *cobra.Command, args []string) { kubectl(args) },
	}
}

// kubectl says that it is not there. It does not return.
func kubectl([]string) {
	fmt.Fprintln(os.Stderr, "kapok: this binary was built without kubectl (-tags nokubectl)")
	os.Exit(exitFailure)
}
