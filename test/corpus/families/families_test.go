package families

import (
	"os"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/tools/clientcmd"
)

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
	for _, f := range all {
		if !strings.HasPrefix(f.Name, "kapok_") && want[f.Name] != f.String() {
			t.Errorf("got  %s\nwant %s", f, want[f.Name])
		}
	}
}
