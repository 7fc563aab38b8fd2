package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// kubernetesAPI is the version of the API that this binary serves.
const kubernetesAPI = "1.37"

func newVersion() *cobra.Command {
	var as output
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if as == asJSON {
				return failed(printJSON(c.OutOrStdout(), struct {
					Version    string `json:"version"`
					Kubernetes string `json:"kubernetes"` // the API
					Go         string `json:"go"`
					Platform   string `json:"platform"`
				}{version(), kubernetesAPI, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}))
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), versionLine())
			return failed(err)
		},
	}
	as.flag(c)
	return c
}

// versionLine is what kapok version and kapok --version print.
func versionLine() string {
	return fmt.Sprintf("kapok %s, Kubernetes API %s, %s %s/%s", version(), kubernetesAPI, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// released is the version of a released binary, such as v0.1.0. Its build sets it by -ldflags=-X;
// in other builds it is empty.
var released string

// version is that of the release, that of the module if it was installed as a module, and the
// commit if it was built from a work tree.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = nil
	}
	return versionOf(released, info)
}

// versionOf returns the version of a binary by what its build has recorded. info is nil without
// build information.
func versionOf(released string, info *debug.BuildInfo) string {
	if released != "" {
		return released
	}
	if info == nil {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	if commit == "" {
		return "devel"
	}
	return commit + changed
}
