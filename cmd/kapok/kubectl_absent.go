//go:build nokubectl

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// newKubectl returns a command that reports that kubectl is missing.
func newKubectl() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Hidden:             true,
		DisableFlagParsing: true,
		Run:                func(_ *cobra.Command, args []string) { kubectl(args) },
	}
}

// kubectl prints that kubectl is missing. It does not return.
func kubectl([]string) {
	fmt.Fprintln(os.Stderr, "kapok: this binary was built without kubectl (-tags nokubectl)")
	os.Exit(exitFailure)
}
