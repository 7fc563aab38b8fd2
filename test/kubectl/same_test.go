package kubectl

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSame runs kubectl, and kapok as kubectl, without a server: output and exit codes must be
// equal, in every language.
func TestSame(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	plugins := filepath.Join(home, "plugins")
	if err := os.Mkdir(plugins, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"plugins/kubectl-greet":           "#!/bin/sh\ncat; echo \"$0 $@\"; exit 42\n",
		"plugins/kubectl-create-greeting": "#!/bin/sh\necho \"$@\" >&2\n",
		"plugins/kubectl_complete-greet":  "#!/bin/sh\necho hello; echo :4\n",
		"kuberc": "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ndefaults:\n- {command: version, options: [{name: client, default: \"true\"}]}\n" +
			"aliases:\n- {name: pods, command: get, appendArgs: [pods]}\n",
		"kubeconfig":         "apiVersion: v1\nkind: Config\nusers:\n- {name: u, user: {token: secret}}\n",
		"kustomization.yaml": "namePrefix: a-\nconfigMapGenerator:\n- {name: m, literals: [k=v]}\n",
		"bad.yaml":           "kind: ConfigMap\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := func(language string, program []string, args ...string) (int, string) {
		c := exec.CommandContext(t.Context(), program[0], append(program[1:], args...)...)
		c.Dir, c.Stdin = home, strings.NewReader("input\n")
		c.Env = []string{"HOME=" + home, "PATH=" + plugins + string(os.PathListSeparator) + os.Getenv("PATH"), "LANG=" + language + ".UTF-8",
			"KUBERC=" + filepath.Join(home, "kuberc"), "KUBECONFIG=" + filepath.Join(home, "kubeconfig")}
		var stdout, stderr bytes.Buffer
		c.Stdout, c.Stderr = &stdout, &stderr
		if err := c.Run(); err != nil {
			if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) {
				t.Fatal(err)
			}
		}
		return c.ProcessState.ExitCode(), logged.ReplaceAllString(stdout.String()+"--- stderr\n"+stderr.String(), "$1")
	}
	compare := func(language string, args ...string) string {
		t.Helper()
		code, out := run(language, []string{filepath.Join(bin, "kapok"), "kubectl"}, args...)
		wantCode, want := run(language, []string{filepath.Join(bin, "kubectl")}, args...)
		if code != wantCode || out != want {
			t.Errorf("%s: kubectl %q exits with %d and prints\n%s\nwant %d and\n%s", language, args, code, out, wantCode, want)
		}
		return want
	}

	// The help of each command in the help.
	count := 0
	var help func(path ...string)
	help = func(path ...string) {
		count++
		text, _, _ := strings.Cut(compare("en_US", append(path, "--help")...), "\nOptions:\n")
		if len(path) < 2 {
			for _, m := range regexp.MustCompile(`(?m)^  ([a-z][a-z-]+) {2,}\S`).FindAllStringSubmatch(text, -1) {
				help(append(path[:len(path):len(path)], m[1])...)
			}
		}
	}
	help()
	if count < 80 {
		t.Errorf("there are %d commands only", count)
	}

	for _, language := range []string{"de_DE", "fr_FR", "it_IT", "ja_JP", "ko_KR", "pt_BR", "zh_CN", "zh_TW", "C", "xx_XX"} {
		compare(language)
	}
	for _, args := range [][]string{
		{"options"},
		{"version"}, // of the client, as in kuberc
		{"version", "-v=6"},
		{"version", "-v", "9", "--client"},
		{"completion", "bash"},
		{"completion", "zsh"},
		{"completion", "fish"},
		{"completion", "powershell"},
		{"completion", "ksh"},
		{"__complete", "get", "--out"},
		{"__completeNoDesc", ""},
		{"__complete", "greet", ""},
		{"plugin", "list"},
		{"greet", "a", "--b"},
		{"create", "greeting", "x"},
		{"config", "view"},
		{"config", "use-context", "none"},
		{"kustomize", "."},
		{"create", "configmap", "m", "--from-literal=k=v", "--dry-run=client", "-o", "yaml"},
		{"create", "job", "j", "--image=i", "--dry-run=client", "-o", "json"},
		{"apply", "-f", "bad.yaml", "--server", "http://127.0.0.1:1"},
		{"apply", "-f", "none.yaml"},
		{"pods", "--server", "http://127.0.0.1:1", "--request-timeout=1"},
		{"get", "pods", "-o"},
		{"get", "pods", "--nope"},
		{"--nope"},
		{"nope"},
		{"-v=nope"},
		{"--v"},
		{"create"},
		{"create", "nope"},
		{"--", "get"},
		{"-h", "get"},
		{"help", "create", "secret", "tls"},
		{""},
	} {
		compare("en_US", args...)
	}
}

// logged matches the parts of log lines that differ between runs.
var logged = regexp.MustCompile(`(?m)^([IWE])\d{4} [\d:.]+ +\d+ `)
