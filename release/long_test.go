package main

import (
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var long = flag.Bool("long", false, "build kapok itself, and install it by what was released")

// TestKapok makes a release of kapok for this machine, and installs it by install.sh and by
// setup-envtest.
func TestKapok(t *testing.T) {
	if !*long {
		t.Skip("set -long to build kapok")
	}
	here := target{runtime.GOOS, runtime.GOARCH}
	files := http.NewServeMux()
	server := httptest.NewServer(files)
	defer server.Close()
	s, err := findSource(t.Context(), "..", true)
	if err != nil {
		t.Fatal(err)
	}
	o := options{
		version: "v1.2.3-rc.4", out: filepath.Join(t.TempDir(), "dist"), baseURL: server.URL, targets: []target{here}, module: "..", pkg: "./cmd/kapok",
	}
	if err := makeRelease(t.Context(), o, s, t.Output()); err != nil {
		t.Fatal(err)
	}
	files.Handle("/", http.FileServer(http.Dir(o.out)))
	r := &release{options: o, source: s, dist: o.out}
	t.Run("install", func(t *testing.T) { testInstall(t, r, "kapok v1.2.3-rc.4, Kubernetes API 1.37") })
	t.Run("setup-envtest", func(t *testing.T) { testSetupEnvtest(t, server.URL) })
}

// testSetupEnvtest lets setup-envtest download the assets, and runs the three programs.
func testSetupEnvtest(t *testing.T, url string) {
	bin := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "tool", "setup-envtest", "use", "1.37.0", "--index", url+"/"+envtestIndex, "--bin-dir", bin, "--print", "path").Output()
	if err != nil {
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			t.Fatalf("setup-envtest: %v: %s", err, failed.Stderr)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", bin).Run() }) // setup-envtest makes the directory read-only
	for program, tt := range map[string]struct{ args, want string }{
		"kube-apiserver": {"--version", "Kubernetes v1.37."},
		"etcd":           {"--version", "Kapok: v1.2.3-rc.4"},
		"kubectl":        {"version --client", "Client Version"},
	} {
		got, err := exec.CommandContext(t.Context(), filepath.Join(string(out), program), strings.Fields(tt.args)...).CombinedOutput()
		if err != nil || !strings.Contains(string(got), tt.want) {
			t.Errorf("%s %s prints %s, error %v, want %s", program, tt.args, got, err, tt.want)
		}
	}
}
