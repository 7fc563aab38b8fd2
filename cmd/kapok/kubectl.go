//go:build !nokubectl

package main

import (
	"os"
	"runtime/debug"
	"strings"
	_ "unsafe" // for go:linkname

	_ "github.com/kapok-dev/kapok/cmd/kapok/internal/translations" // so that the other commands do not read them

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // what a kubeconfig may name under auth-provider
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	libraryversion "k8s.io/component-base/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/util"
)

// newKubectl is the command that leaves to kubectl whatever follows it.
func newKubectl() *cobra.Command {
	as := func(args ...string) { kubectl(append([]string{"kubectl"}, args...)) }
	c := &cobra.Command{
		Use:                "kubectl",
		Short:              "Be kubectl, the command line client of Kubernetes",
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

// kubectl makes this process kubectl. The command line begins with the name of the program. It does not return.
//
// A process is kubectl once, and nothing beside it: kubectl's packages write to the standard streams, exit where they fail, become
// the plugin that they run, and read os.Args in several places.
func kubectl(args []string) {
	os.Args = args
	setKubectlVersion()
	// Plugins are looked for and preferences read before flags are parsed, and that is logged, too. A level that is no number is refused
	// when they are.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(args))
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // exits
	}
	os.Exit(0)
}

// These variables make up kubectl's version and its User-Agent. Kubernetes' builds set them by a flag of the linker, which "go install"
// could not give, and there is no function that does.
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

// setKubectlVersion has kubectl tell the release that its module is of, unless the linker was told another one.
func setKubectlVersion() {
	release := kubectlRelease()
	if release == "" || !strings.HasPrefix(kubectlVersion, "v0.0.0") {
		return
	}
	kubectlVersion, clientVersion, apply.ApplySetToolVersion = release, release, release
	kubectlCommit, clientCommit, kubectlTreeState = "", "", "clean" // the commit is not known
	numbers := strings.SplitN(strings.TrimPrefix(release, "v"), ".", 3)
	kubectlMajor, kubectlMinor = numbers[0], numbers[1]
	_ = libraryversion.SetDynamicVersion(kubectlVersion) // which it refuses when it differs from the variable
}

// kubectlRelease is the release of Kubernetes that module k8s.io/kubectl belongs to, such as v1.37.2 for its v0.37.2, and empty where the binary
// was built without modules.
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
