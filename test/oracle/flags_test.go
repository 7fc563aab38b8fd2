package oracle

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
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

// TestFeatureGates compares the feature gates of kube-apiserver with those that Kapok knows.
func TestFeatureGates(t *testing.T) {
	all := utilfeature.DefaultMutableFeatureGate.GetAll()
	// kube-controller-manager adds it. That is in this process, but not in kube-apiserver.
	delete(all, cmfeatures.ControllerManagerReleaseLeaderElectionLockOnExit)
	var now strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		spec, value := all[name], "off"
		if spec.Default {
			value = "on"
		}
		stage := string(spec.PreRelease)
		if stage == "" {
			stage = "GA"
		}
		now.WriteString(string(name) + " " + stage + " " + value)
		if spec.LockToDefault {
			now.WriteString(" locked")
		}
		now.WriteString("\n")
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
