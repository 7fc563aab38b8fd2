package oracle

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/test/corpus/families"

	_ "k8s.io/component-base/metrics/prometheus/version" // kubernetes_build_info, which the program registers
)

// TestFamilies lists the metrics of kube-apiserver. With -rewrite they become the golden file;
// otherwise they are compared with it.
func TestFamilies(t *testing.T) {
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
	compareGolden(t, "../corpus/families/testdata/kube-apiserver.txt", now.String())
}
