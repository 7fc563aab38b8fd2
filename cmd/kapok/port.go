package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kapok-dev/kapok/internal/port"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
)

func newPort() *cobra.Command {
	dryRun := false
	c := &cobra.Command{
		Use:   "port [DIR]",
		Short: "Move an operator from controller-runtime to Kapok's framework",
		Long: `Move an operator from controller-runtime to Kapok's framework.

The imports of the Go files of the module in DIR (default: the working directory) are
rewritten, except those in vendor, testdata and nested modules. Everything else in the files
is unchanged, apart from a few functions with another name. Code that uses what the framework
does not have is listed as FILE:LINE with the change to make; then the exit code is 1. Notes
list code that compiles but behaves differently. Files that have been moved do not change
again.

Afterwards, run

  go get github.com/kapok-dev/kapok && go mod tidy`,
		Example: `  kapok port --dry-run
  kapok port ./operator`,
		Args: maybeOneArg("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return failed(runPort(dir, dryRun, c.OutOrStdout(), c.ErrOrStderr()))
		},
	}
	c.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "print the changes as a unified diff without writing them")
	return c
}

// runPort moves a project, or prints how.
func runPort(dir string, dryRun bool, stdout, stderr io.Writer) error {
	if info, err := os.Stat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	changes, findings, err := port.Dir(os.DirFS(dir))
	if err != nil {
		return fmt.Errorf("no file was changed: %w", err)
	}
	if dryRun {
		err = printDiff(stdout, changes)
	} else {
		err = writeChanges(stdout, dir, changes)
	}
	if err != nil {
		return err
	}
	left := 0
	for _, f := range findings {
		if f.Note {
			fmt.Fprintf(stderr, "note: %v\n", f)
			continue
		}
		left++
		fmt.Fprintln(stderr, f)
	}
	switch {
	case left == 1:
		return errors.New("1 place must be changed by hand")
	case left > 1:
		return fmt.Errorf("%d places must be changed by hand", left)
	}
	return nil
}

func writeChanges(stdout io.Writer, dir string, changes []port.Change) error {
	if err := port.Write(dir, changes); err != nil {
		return err
	}
	for _, c := range changes {
		if _, err := fmt.Fprintln(stdout, c.Name); err != nil {
			return err
		}
	}
	return nil
}

func printDiff(stdout io.Writer, changes []port.Change) error {
	for _, c := range changes {
		err := difflib.WriteUnifiedDiff(stdout, difflib.UnifiedDiff{
			A: difflib.SplitLines(string(c.Before)), FromFile: "a/" + c.Name,
			B: difflib.SplitLines(string(c.After)), ToFile: "b/" + c.Name,
			Context: 3,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
