// Command kapok runs a Kubernetes API server without the cluster.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	processnode "github.com/kapok-dev/kapok/node/process"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitFailure    = 1 // the command failed
	exitUsage      = 2 // the command line is invalid
	exitIncomplete = 3 // the result lacks something, see errIncomplete
)

func main() {
	processnode.Main()
	do := run
	if other := program(os.Args[0]); other != nil {
		do = other
	}
	os.Exit(do(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	return execute(newRoot(), "kapok", args, stdout, stderr)
}

// runConvert executes the command line of the plugin of kubectl that kapok convert is under the
// name kubectl-convert.
func runConvert(args []string, stdout, stderr io.Writer) int {
	root := newConvert()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl convert"}
	root.Example = strings.ReplaceAll(root.Example, "kapok convert", "kubectl convert")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(wrongFlag)
	return execute(root, "kubectl convert", args, stdout, stderr)
}

// execute executes a command line, and returns the exit code.
func execute(root *cobra.Command, name string, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "%s: %v\n", name, inWords(err))
	if errors.Is(err, errIncomplete) {
		return exitIncomplete
	}
	if failed := (*failure)(nil); errors.As(err, &failed) {
		return exitFailure
	}
	fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", command.CommandPath())
	return exitUsage
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "kapok",
		Short:         "The Kubernetes API without the cluster",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate(versionLine() + "\n")
	root.AddCommand(newUp(), newTour(), newList(), newStatus(), newStop(), newDelete(), newLogs(), newConfig(), newDev(), newControllers(), newUser(), newNode(), newImage(), newSnapshot(), newDoctor(), newWhy(), newHistory(), newDiff(), newUndo(), newConsole(), newCheck(), newConvert(), newBench(), newEnvtest(), newKubectl(), newPort(), newReference(), newVersion())
	root.AddCommand(newToolkit()...)
	group(root)
	root.SetFlagErrorFunc(wrongFlag)
	helpOf(root)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			group(c)
		}
	}
	inGroups(root)
	return root
}

// failure is an error of the execution of a command. All others, which cobra finds,
// are errors of the command line.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// failed marks an error of the execution of a command.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &failure{err}
}
