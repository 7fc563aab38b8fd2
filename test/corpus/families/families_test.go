package families

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/tools/clientcmd"
)

// own are the prefixes of metrics that kube-apiserver does not have.
var own = []string{"kapok_", "controller_runtime_"}

// different are metrics that differ from kube-apiserver's, with the reason.
var different = map[string]string{}

// TestKapok compares the metrics of Kapok with those of kube-apiserver: names, types and labels.
func TestKapok(t *testing.T) {
	golden, err := os.ReadFile("testdata/kube-apiserver.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(golden)) {
		name, _, _ := strings.Cut(line, " ")
		want[strings.TrimSpace(name)] = strings.TrimSpace(line)
	}
	server, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0", DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	socket, err := clientcmd.RESTConfigFromKubeConfig(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	all, err := Ask(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	differ := map[string]bool{}
	for _, f := range all {
		if slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(f.Name, prefix) }) {
			continue
		}
		if want[f.Name] == f.String() {
			continue
		}
		differ[f.Name] = true
		if different[f.Name] == "" {
			t.Errorf("got  %s\nwant %s", f, want[f.Name])
		}
	}
	for name := range different {
		if !differ[name] {
			t.Errorf("%s no longer differs", name)
		}
	}
}
