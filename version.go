package kapok

import (
	"runtime"

	"k8s.io/apimachinery/pkg/version"
)

// KubernetesVersion is the release of Kubernetes whose API the server serves, as
// clients compare it with theirs.
const KubernetesVersion = "v1.37.2"

// serverVersion is what /version tells.
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
