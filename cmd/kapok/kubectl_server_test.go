//go:build !nokubectl

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
)

// serveWith starts a server whose kubeconfig is a file, with a namespace of a name.
func serveWith(t *testing.T, kubeconfig, name string) *kapok.Server {
	t.Helper()
	server, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0", Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	s := newShell(t, kubeconfig)
	if code, _, stderr := s.kapok("", "kubectl create namespace "+name); code != 0 {
		t.Fatal(stderr)
	}
	return server
}

// Without KUBECONFIG, kapok kubectl asks the server that runs on the default data directory, before
// any other that ~/.kube/config names; the environment and the command line name others.
func TestKubectlFindsTheRunningServer(t *testing.T) {
	t.Parallel()
	s := newShell(t, "")
	data := filepath.Join(s.home, "data")
	s.env = append(s.env, "XDG_DATA_HOME="+data)
	asks := func(args string) string {
		t.Helper()
		_, stdout, stderr := s.kapok("", strings.TrimSpace("kubectl get namespace one two -o name --ignore-not-found "+args))
		return stdout + stderr
	}
	if said := asks(""); !strings.Contains(said, "kapok: no server runs on "+data) || !strings.Contains(said, "start a server with kapok up") {
		t.Errorf("without a server it says %s", said)
	}
	if code, stdout, _ := s.kapok("", "kubectl version --client"); code != 0 || !strings.Contains(stdout, "Client Version") {
		t.Errorf("without a server, the version of the client: exit code %d, %s", code, stdout)
	}
	own, other := filepath.Join(data, "kapok", "kubeconfig"), filepath.Join(s.home, ".kube", "config")
	server := serveWith(t, own, "one")
	const one, two = "namespace/one\n", "namespace/two\n"
	if said := asks(""); said != one {
		t.Errorf("with a server it says %q", said)
	}
	serveWith(t, other, "two")
	left, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{"": one, "--kubeconfig " + other: two, "--kubeconfig=" + other: two, "--context kapok": two} {
		if said := asks(args); said != want {
			t.Errorf("with another server in ~/.kube/config, and %q, it says %q", args, said)
		}
	}
	s.env = append(s.env, "KUBECONFIG="+other)
	if said := asks(""); said != two {
		t.Errorf("with KUBECONFIG it says %q", said)
	}
	s.env = s.env[:len(s.env)-1]
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, left, 0o600); err != nil { // as a server leaves it behind that is killed
		t.Fatal(err)
	}
	if said := asks(""); said != two {
		t.Errorf("with a server that runs no more it says %q", said)
	}
}

// A link of the name kubectl-convert makes kapok convert a plugin of kubectl.
func TestKubectlConvertPlugin(t *testing.T) {
	t.Parallel()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	s := newShell(t, "")
	bin := filepath.Join(s.home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(bin, "kubectl-convert"+exeSuffix())); err != nil {
		t.Skip(err) // on Windows, few users may
	}
	s.env = append(s.env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	const old = "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: c}\nspec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}"
	if code, stdout, stderr := s.kapok(old, "kubectl convert -f - --output-version batch/v1"); code != 0 || !strings.Contains(stdout, "apiVersion: batch/v1\n") || stderr != "" {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, _ := s.kapok("", "kubectl convert --help"); code != 0 || !strings.Contains(stdout, "  kubectl convert -f FILE [flags]\n") || strings.Contains(stdout, "kapok convert") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	if code, _, stderr := s.kapok("", "kubectl convert --filenam x"); code != exitUsage || !strings.Contains(stderr, "kubectl convert: unknown flag: --filenam: did you mean --filename?\nRun 'kubectl convert --help'") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}
