package server

import (
	"runtime"

	"k8s.io/apimachinery/pkg/version"
)

// KubernetesVersion is the release of Kubernetes whose API the server serves. Clients compare it
// with their own version.
const KubernetesVersion = "v1.37.2"

// serverVersion returns the content of /version.
func serverVersion() version.Info {
	return version.Info{
		Major:        "1",
		Minor:        "37",
		GitVersion:   KubernetesVersion + "+kapok",
		GitTreeState: "clean",
		GoVersion:    runtime.Version(),
		Compiler:     runtime.Compiler,
		Platform:     runtime.GOOS + "/" + runtime.GOARCH,
	}
}
