//go:build !nokubectl

package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	_ "unsafe" // for go:linkname

	_ "github.com/kapok-dev/kapok/cmd/kapok/internal/translations" // keeps other commands from loading them

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the auth-provider plugins of kubeconfigs
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	libraryversion "k8s.io/component-base/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/util"
)

// newKubectl returns the command kubectl, which passes all its arguments to kubectl.
func newKubectl() *cobra.Command {
	as := func(args ...string) {
		args, err := useRunningServer(args)
		if err != nil {
			fmt.Fprintf(os.Stderr, "kapok: %v\n", err)
			os.Exit(exitFailure)
		}
		kubectl(append([]string{"kubectl"}, args...))
	}
	c := &cobra.Command{
		Use:                "kubectl",
		Short:              "Run kubectl, the Kubernetes command-line client, on the instance that runs",
		DisableFlagParsing: true,
		Run:                func(_ *cobra.Command, args []string) { as(args...) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			complete := os.Args[1] // with descriptions, or without
			as(append(append([]string{complete}, args...), word)...)
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	c.SetHelpFunc(func(*cobra.Command, []string) { as("--help") })
	return c
}

// kubectl runs kubectl in this process and exits. args begins with the name of the program.
//
// It can run only once, and with nothing else in the process: kubectl's packages write to the
// standard streams, exit on errors, replace the process by a plugin, and read os.Args in several
// places.
func kubectl(args []string) {
	os.Args = args
	setKubectlVersion()
	// kubectl looks for plugins and reads preferences before it parses flags, and logs both. Set the
	// log level for that; the flag parser rejects an invalid one.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(args))
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // exits
	}
	os.Exit(0)
}

// These variables are kubectl's version and its User-Agent. Kubernetes' builds set them by a linker
// flag, which "go install" cannot pass, and no function sets them.
var (
	//go:linkname kubectlMajor k8s.io/component-base/version.gitMajor
	kubectlMajor string
	//go:linkname kubectlMinor k8s.io/component-base/version.gitMinor
	kubectlMinor string
	//go:linkname kubectlVersion k8s.io/component-base/version.gitVersion
	kubectlVersion string
	//go:linkname kubectlCommit k8s.io/component-base/version.gitCommit
	kubectlCommit string
	//go:linkname kubectlTreeState k8s.io/component-base/version.gitTreeState
	kubectlTreeState string

	//go:linkname clientVersion k8s.io/client-go/pkg/version.gitVersion
	clientVersion string
	//go:linkname clientCommit k8s.io/client-go/pkg/version.gitCommit
	clientCommit string
)

// setKubectlVersion sets the version that kubectl prints to that of its module, unless the linker
// set another one.
func setKubectlVersion() {
	release := kubectlRelease()
	if release == "" || !strings.HasPrefix(kubectlVersion, "v0.0.0") {
		return
	}
	kubectlVersion, clientVersion, apply.ApplySetToolVersion = release, release, release
	kubectlCommit, clientCommit, kubectlTreeState = "", "", "clean" // the commit is not known
	numbers := strings.SplitN(strings.TrimPrefix(release, "v"), ".", 3)
	kubectlMajor, kubectlMinor = numbers[0], numbers[1]
	_ = libraryversion.SetDynamicVersion(kubectlVersion) // it rejects a value that differs from the variable
}

// kubectlRelease returns the Kubernetes release of module k8s.io/kubectl, such as v1.37.2 for
// v0.37.2. It returns "" if the binary was built without modules.
func kubectlRelease() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range info.Deps {
		if minor, ok := strings.CutPrefix(module.Version, "v0."); ok && module.Path == "k8s.io/kubectl" {
			return "v1." + minor
		}
	}
	return ""
}
