package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	cmfeatures "k8s.io/controller-manager/pkg/features"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// TestFlags compares the flags of kube-apiserver with those that Kapok accepts instead.
func TestFlags(t *testing.T) {
	const golden = "../../cmd/kapok/kube-apiserver.flags"
	var now strings.Builder
	app.NewAPIServerCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		now.WriteString(f.Name)
		if f.NoOptDefVal != "" {
			now.WriteString(" bool")
		}
		now.WriteString("\n")
	})
	compareGolden(t, golden, now.String())
}

// TestFeatureGates compares the feature gates of kube-apiserver with those that Kapok knows, in all
// releases that can be emulated.
func TestFeatureGates(t *testing.T) {
	all := utilfeature.DefaultMutableFeatureGate.GetAllVersioned()
	// kube-controller-manager adds it. That is in this process, but not in kube-apiserver.
	delete(all, cmfeatures.ControllerManagerReleaseLeaderElectionLockOnExit)
	oldest, newest := version.MajorMinor(1, 34), version.MajorMinor(1, 37)
	var now strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		specs := slices.Clone(all[name])
		slices.SortFunc(specs, func(a, b featuregate.FeatureSpec) int {
			if a.Version.LessThan(b.Version) {
				return -1
			}
			return 1
		})
		var states []string
		for _, spec := range specs {
			if spec.Version.GreaterThan(newest) || spec.MinCompatibilityVersion != nil && spec.MinCompatibilityVersion.AtLeast(spec.Version) {
				continue // servers are compatible with the release before by default
			}
			if !spec.Version.GreaterThan(oldest) {
				states = nil // what came before does not matter
			}
			value := "off"
			if spec.Default {
				value = "on"
			}
			if spec.LockToDefault {
				value += ",locked"
			}
			states = append(states, fmt.Sprintf("1.%d=%s,%s", spec.Version.Minor(), cmp.Or(string(spec.PreRelease), "GA"), value))
		}
		now.WriteString(string(name) + " " + strings.Join(states, " ") + "\n")
	}
	compareGolden(t, "../../internal/gates/gates.txt", now.String())
}

// compareGolden compares text with a golden file, which it writes with -rewrite.
func compareGolden(t *testing.T, golden, now string) {
	t.Helper()
	if record.Value.String() == "true" {
		if err := os.WriteFile(golden, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if now != string(want) {
		t.Errorf("%s is not current (-rewrite); now it is\n%s", golden, now)
	}
}
