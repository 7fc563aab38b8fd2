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
	if record.Value.String() == "true" {
		if err := os.WriteFile(golden, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if now.String() != string(want) {
		t.Errorf("%s is not current (-rewrite); the flags are now\n%s", golden, now.String())
	}
}
