//go:build !nokubectl

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
)

// With a server it does what kubectl does, and exits as kubectl does.
func TestKubectl(t *testing.T) {
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	server, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0", Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	const settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: "
	s := newShell(t, kubeconfig)
	for _, step := range []struct {
		args   string
		stdin  string
		code   int
		stdout string
		stderr string
	}{
		{"apply -f -", settings + "red}", 0, "configmap/settings created\n", ""},
		{"get configmap settings -o jsonpath={.data.colour}", "", 0, "red", ""},
		{"wait --for=jsonpath={.data.colour}=red configmap/settings --timeout=1m", "", 0, "configmap/settings condition met\n", ""},
		{"wait --for=jsonpath={.data.colour}=blue configmap/settings --timeout=10ms", "", 1, "", "error: timed out waiting for the condition on configmaps/settings\n"},
		{"diff -f -", settings + "red}", 0, "", ""},
		{"diff -f -", settings + "blue}", 1, "+  colour: blue\n", ""},
		{"apply --server-side --force-conflicts -f -", settings + "blue}", 0, "configmap/settings serverside-applied\n", ""},
		{"get cm/settings -o custom-columns=COLOUR:.data.colour", "", 0, "COLOUR\nblue\n", ""},
		{"explain configmap.data", "", 0, "FIELD: data <map[string]string>\n", ""},
		{"auth can-i create pods", "", 0, "yes\n", ""},
		{"auth can-i create pods --as nobody", "", 1, "no\n", ""},
		{"version", "", 0, "Server Version: v1.37.", ""},
		{"get configmap nope", "", 1, "", "Error from server (NotFound): configmaps \"nope\" not found\n"},
		{"get nopes", "", 1, "", "error: the server doesn't have a resource type \"nopes\"\n"},
		{"apply -f -", "kind: [", 1, "", "error: error parsing STDIN: "},
		{"delete configmap settings", "", 0, "configmap \"settings\" deleted from default namespace\n", ""},
	} {
		if _, err := exec.LookPath("diff"); err != nil && strings.HasPrefix(step.args, "diff ") {
			t.Log("there is no program diff here")
			continue
		}
		code, stdout, stderr := s.kapok(step.stdin, "kubectl "+step.args)
		if code != step.code || !strings.Contains(stdout, step.stdout) || !strings.Contains(stderr, step.stderr) || (step.stderr == "") != (stderr == "") {
			t.Errorf("kubectl %s: exit code %d, want %d\n%s%s", step.args, code, step.code, stdout, stderr)
		}
	}
}

// Usage texts and command line errors are kubectl's own.
func TestKubectlCommandLine(t *testing.T) {
	t.Parallel()
	s := newShell(t, "")
	for _, tc := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"kubectl", 0, "kubectl controls the Kubernetes cluster manager.", ""},
		{"kubectl --help", 0, "Use \"kubectl <command> --help\" for more information about a given command.", ""},
		{"help kubectl", 0, "Use \"kubectl <command> --help\" for more information about a given command.", ""},
		{"kubectl get -h", 0, "\n  kubectl get [(-o|--output=)", ""},
		{"kubectl help get", 0, "\n  kubectl get [(-o|--output=)", ""},
		{"kubectl options", 0, "--warnings-as-errors=false", ""},
		{"kubectl version --client", 0, "Client Version: v1.37.", ""},
		{"kubectl completion bash", 0, "complete -o default -F __start_kubectl kubectl", ""},
		{"kubectl config current-context", 1, "", "error: current-context is not set\n"},
		{"kubectl config view", 0, "clusters: null\n", ""},
		{"kubectl get --nope", 1, "", "error: unknown flag: --nope\nSee 'kubectl get --help' for usage.\n"},
		{"kubectl --nope", 1, "", "error: unknown flag: --nope\n"},
		{"kubectl nope", 1, "", "error: unknown command \"nope\" for \"kubectl\"\n"},
		{"kubectl -v=nope version --client", 1, "", "-v, --v"},
	} {
		code, stdout, stderr := s.kapok("", tc.args)
		if code != tc.code || !strings.Contains(stdout, tc.stdout) || !strings.Contains(stderr, tc.stderr) || strings.Contains(stdout+stderr, "kapok") {
			t.Errorf("kapok %s: exit code %d, want %d\n%s%s", tc.args, code, tc.code, stdout, stderr)
		}
	}
}

// Shells complete "kapok kubectl ..." as they complete "kubectl ...".
func TestKubectlCompletion(t *testing.T) {
	t.Parallel()
	s := newShell(t, "")
	for _, words := range []string{"", "ge", "get -", "get --output=j", "config --kubeconfig ", "rollout "} {
		for _, complete := range []string{"__complete", "__completeNoDesc"} {
			_, want, _ := s.kapok("", "kubectl "+complete+" "+words)
			code, got, stderr := s.kapok("", complete+" kubectl "+words)
			if code != 0 || got != want || !strings.Contains(got, "\n:") && !strings.HasPrefix(got, ":") {
				t.Errorf("%s %q: exit code %d\n%s%s\nwant\n%s", complete, words, code, got, stderr, want)
			}
		}
	}
}

// Users' own additions: plugins, preferences, their language.
func TestKubectlOfUser(t *testing.T) {
	t.Parallel()
	s := newShell(t, "")

	kuberc := filepath.Join(s.home, "kuberc")
	write(t, kuberc, "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\naliases:\n- {name: mine, command: version, options: [{name: client, default: \"true\"}]}\n")
	s.env = append(s.env, "KUBERC="+kuberc)
	if code, stdout, stderr := s.kapok("", "kubectl mine"); code != 0 || !strings.HasPrefix(stdout, "Client Version: ") {
		t.Errorf("an alias: exit code %d\n%s%s", code, stdout, stderr)
	}

	german := newShell(t, "")
	german.env = append(german.env, "LANG=de_DE.UTF-8")
	if _, stdout, _ := german.kapok("", "kubectl --help"); !strings.Contains(stdout, "Starte ein bestimmtes Image auf dem Cluster") {
		t.Errorf("not in German:\n%s", stdout)
	}

	if runtime.GOOS == "windows" {
		t.Skip("plugins are shell scripts here")
	}
	write(t, filepath.Join(s.home, "kubectl-greet"), "#!/bin/sh\nread name\necho \"$1 $name\"\nexit 42\n")
	if err := os.Chmod(filepath.Join(s.home, "kubectl-greet"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "PATH="+s.home+string(os.PathListSeparator)+os.Getenv("PATH"))
	if code, stdout, stderr := s.kapok("world\n", "kubectl greet hello"); code != 42 || stdout != "hello world\n" {
		t.Errorf("a plugin: exit code %d\n%s%s", code, stdout, stderr)
	}
}

// Servers see the release of kubectl's module, from which its version is read.
func TestKubectlUserAgent(t *testing.T) {
	t.Parallel()
	var agent string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { agent = r.UserAgent() }))
	defer server.Close()
	s := newShell(t, "")
	if code, stdout, stderr := s.kapok("", "kubectl get --raw / --server "+server.URL); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	server.Close() // the handler no longer writes agent
	want := "kubectl/" + kubectlRelease() + " (" + runtime.GOOS + "/" + runtime.GOARCH + ") kubernetes/unknown"
	if agent != want || !regexp.MustCompile(`^v1\.\d+\.\d+$`).MatchString(kubectlRelease()) {
		t.Errorf("%s, want %s", agent, want)
	}
	if _, stdout, _ := s.kapok("", "kubectl version --client -o json"); !strings.Contains(stdout, `"gitVersion": "`+kubectlRelease()+`"`) || !strings.Contains(stdout, `"minor": "37"`) {
		t.Errorf("version:\n%s", stdout)
	}
}

// Other commands pay for the initialisation of kubectl's packages. That stays small: without
// package translations it is more than 6 MB.
func TestKubectlCostsOthersLittle(t *testing.T) {
	t.Parallel()
	s := newShell(t, "")
	s.env = append(s.env, "GODEBUG=inittrace=1")
	const bound = 3 << 20
	for args, little := range map[string]bool{"version": true, "kubectl --help": false} {
		_, _, trace := s.kapok("", args)
		sum := 0
		for _, m := range regexp.MustCompile(`(?m)^init k8s\.io/kubectl/\S+ .* (\d+) bytes,`).FindAllStringSubmatch(trace, -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		if sum == 0 || (sum < bound) != little {
			t.Errorf("kapok %s: %d bytes are allocated before main, bound %d", args, sum, bound)
		}
	}
}
