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

// version is the module's version if it was installed as a module, and the
// commit if it was built from a work tree.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
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
