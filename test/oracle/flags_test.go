package oracle

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
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
