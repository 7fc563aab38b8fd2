package oracle

import (
	"io"
	"os/exec"
	"strings"
	"testing"
)

// TestControllersElsewhere runs Kapok's controllers on kube-apiserver. Of kube-controller-manager's
// controllers, only those run that are part of Kapok's server.
func TestControllersElsewhere(t *testing.T) {
	dir := t.TempDir()
	config, stop, err := StartServer(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	m, err := StartControllerManager(config, dir, io.Discard, "--controllers=garbage-collector-controller,namespace-controller")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Stop)
	kubeconfig, err := writeKubeconfig(config, dir, "admin")
	if err != nil {
		t.Fatal(err)
	}
	script := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run=^TestControllersElsewhere$", ".", "-kubeconfig="+kubeconfig)
	script.Dir = "../kubectl"
	out, err := script.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestControllersElsewhere ") { // which could have skipped itself
		t.Errorf("%v\n%s", err, out)
	}
}
