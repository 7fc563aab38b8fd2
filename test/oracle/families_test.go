package oracle

import (
	"os"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/test/corpus/families"

	_ "k8s.io/component-base/metrics/prometheus/version" // kubernetes_build_info, which the program registers
)

// TestFamilies lists the metrics of kube-apiserver. With -rewrite they become the golden file;
// otherwise they are compared with it.
func TestFamilies(t *testing.T) {
	const golden = "../corpus/families/testdata/kube-apiserver.txt"
	config, stop, err := StartServer(t.TempDir(), "--enable-priority-and-fairness=true", "--max-requests-inflight=400", "--max-mutating-requests-inflight=200")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	all, err := families.Ask(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	var now strings.Builder
	for _, f := range all {
		now.WriteString(f.String() + "\n")
	}
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
		t.Errorf("%s is not current (-rewrite); the metrics are now\n%s", golden, now.String())
	}
}
