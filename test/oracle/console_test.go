package oracle

import (
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/node/simulated"
)

var console = flag.Bool("console", false, "run the console's tests of views on kube-apiserver; needs npm and Chromium")

// TestConsoleElsewhere runs the console's tests of views on a kube-apiserver with
// kube-controller-manager, kube-scheduler and simulated nodes.
func TestConsoleElsewhere(t *testing.T) {
	if !*console {
		t.Skip("runs a browser: -console")
	}
	dir := t.TempDir()
	config, stop, err := StartServer(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	controllers, err := StartControllerManager(config, dir, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(controllers.Stop)
	scheduler, err := StartScheduler(config, dir, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scheduler.Stop)
	nodes, err := manager.New(config, manager.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := (simulated.Options{Nodes: 3}).Add(nodes); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- nodes.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	kubeconfig, err := writeKubeconfig(config, dir, "admin")
	if err != nil {
		t.Fatal(err)
	}
	kapok := filepath.Join(dir, "kapok")
	for _, c := range []*exec.Cmd{
		exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-o", kapok, "./cmd/kapok"),
		exec.CommandContext(t.Context(), "npm", "--prefix", "../console", "ci", "--no-audit", "--no-fund"),
		exec.CommandContext(t.Context(), "node", "--test", "../console/views.test.js"),
	} {
		c.Env = append(os.Environ(), "KAPOK="+kapok, "ELSEWHERE="+kubeconfig)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c.Args, err, out)
		}
	}
}
