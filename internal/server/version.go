package server

import (
	"runtime"
	"strconv"

	"github.com/kapok-dev/kapok/internal/emulation"

	"k8s.io/apimachinery/pkg/version"
)

// KubernetesVersion is the release of Kubernetes whose API the server serves. Clients compare it
// with their own version.
const KubernetesVersion = "v1.37.2"

// serverVersion returns the content of /version of a server that behaves as a release.
func serverVersion(emulated emulation.Release) version.Info {
	return version.Info{
		Major:                 "1",
		Minor:                 strconv.Itoa(int(emulation.Newest)),
		EmulationMajor:        "1",
		EmulationMinor:        strconv.Itoa(int(emulated)),
		MinCompatibilityMajor: "1",
		MinCompatibilityMinor: strconv.Itoa(int(minCompatible(emulated))),
		GitVersion:            KubernetesVersion + "+kapok",
		GitTreeState:          "clean",
		GoVersion:             runtime.Version(),
		Compiler:              runtime.Compiler,
		Platform:              runtime.GOOS + "/" + runtime.GOARCH,
	}
}
