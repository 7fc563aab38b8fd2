package contexts_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/contexts"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// others is a kubeconfig with a relative path, an extension and a plugin.
const others = `apiVersion: v1
clusters:
- cluster:
    certificate-authority: ca.crt
    extensions:
    - extension:
        a: 1
      name: example.com
    server: https://work:6443
    tls-server-name: x
  name: work
contexts:
- context:
    cluster: work
    namespace: shop
    user: me
  name: work
current-context: work
kind: Config
users:
- name: me
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      args:
      - token
      command: login
      env: null
      interactiveMode: IfAvailable
      provideClusterInfo: false
`

const server = `{apiVersion: v1, kind: Config, current-context: kapok, contexts: [{name: kapok, context: {cluster: kapok, user: admin}}],
clusters: [{name: kapok, cluster: {server: "https://127.0.0.1:PORT"}}], users: [{name: admin, user: {token: t}}]}`

func serverAt(port string) []byte { return []byte(strings.ReplaceAll(server, "PORT", port)) }

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) (string, *clientcmdapi.Config) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), config
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What was in the file before is in it afterwards, byte by byte.
func TestOthersAreUntouched(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	write(t, file, others)
	if runtime.GOOS != "windows" {
		must(t, os.Chmod(file, 0o640))
	}
	dir := t.TempDir()
	must(t, contexts.Add(file, "kapok-a", dir, serverAt("1")))
	_, config := read(t, file)
	if config.CurrentContext != "kapok-a" || config.Clusters["kapok-a"].Server != "https://127.0.0.1:1" || config.AuthInfos["kapok-a"].Token != "t" {
		t.Errorf("after Add: %+v", config)
	}
	if _, err := os.Stat(file + ".lock"); err == nil {
		t.Error("the lock is still there")
	}
	must(t, contexts.Remove(file, "kapok-a", dir))
	if got, _ := read(t, file); got != others {
		t.Errorf("after Remove:\n%s\nwant\n%s", got, others)
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// The selection goes back, in any order of deletions.
func TestSelection(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, tc := range []struct {
		name  string
		steps func(t *testing.T, file string)
		want  string
	}{
		{"a again", func(t *testing.T, file string) {
			must(t, contexts.Add(file, "kapok-a", a, serverAt("3")))
			must(t, contexts.Remove(file, "kapok-a", a))
		}, "work"},
		{"a then b", func(t *testing.T, file string) {
			must(t, contexts.Add(file, "kapok-b", b, serverAt("2")))
			must(t, contexts.Remove(file, "kapok-a", a))
			must(t, contexts.Remove(file, "kapok-b", b))
		}, "work"},
		{"b then a", func(t *testing.T, file string) {
			must(t, contexts.Add(file, "kapok-b", b, serverAt("2")))
			must(t, contexts.Remove(file, "kapok-b", b))
			if _, config := read(t, file); config.CurrentContext != "kapok-a" {
				t.Errorf("without b, %s is selected", config.CurrentContext)
			}
			must(t, contexts.Remove(file, "kapok-a", a))
		}, "work"},
		{"chosen by the user", func(t *testing.T, file string) {
			text, _ := read(t, file)
			text = strings.Replace(text, "current-context: kapok-a", "current-context: work", 1)
			write(t, file, strings.Replace(text, "previous: work", "previous: other", 3))
			must(t, contexts.Remove(file, "kapok-a", a))
		}, "work"},
		{"previous is gone", func(t *testing.T, file string) {
			text, _ := read(t, file)
			write(t, file, strings.Replace(text, "previous: work", "previous: other", 3))
			must(t, contexts.Remove(file, "kapok-a", a))
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			write(t, file, others)
			must(t, contexts.Add(file, "kapok-a", a, serverAt("1")))
			tc.steps(t, file)
			if _, config := read(t, file); config.CurrentContext != tc.want || config.Contexts["kapok-a"] != nil || config.Contexts["kapok-b"] != nil {
				t.Errorf("%q is selected, of %v, want %q", config.CurrentContext, config.Contexts, tc.want)
			}
		})
	}
}

// A context of the same name that is another's stays, and so does the whole file.
func TestAnothersContext(t *testing.T) {
	own, other := t.TempDir(), t.TempDir()
	taken := map[string]string{
		"context": "contexts: [{name: kapok-a, context: {cluster: work, user: me}}]\n",
		"cluster": "clusters: [{name: kapok-a, cluster: {server: 'https://work'}}]\n",
		"user":    "users: [{name: kapok-a, user: {token: secret}}]\n",
	}
	file := filepath.Join(t.TempDir(), "marked")
	must(t, contexts.Add(file, "kapok-a", other, serverAt("1")))
	taken["another directory"], _ = read(t, file)
	for name, text := range taken {
		file := filepath.Join(t.TempDir(), "config")
		write(t, file, text)
		if err := contexts.Add(file, "kapok-a", own, serverAt("2")); err == nil || !strings.Contains(err.Error(), "kapok-a exists") {
			t.Errorf("%s: Add: %v", name, err)
		}
		must(t, contexts.Remove(file, "kapok-a", own))
		if got, _ := read(t, file); got != text {
			t.Errorf("%s: the file has changed:\n%s", name, got)
		}
	}
	must(t, os.Remove(other))
	must(t, contexts.Add(file, "kapok-a", own, serverAt("2"))) // its instance is gone
	if _, config := read(t, file); config.Clusters["kapok-a"].Server != "https://127.0.0.1:2" {
		t.Errorf("the server is %s", config.Clusters["kapok-a"].Server)
	}
}

// Files that would lose something stay as they are.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"clusters: [":         "damaged",
		"clusters: 5":         "damaged",
		"- a":                 "damaged",
		"spec: {}":            `field "spec"`,
		"kind: Pod":           "damaged",
		"\x00\x01":            "damaged",
		"apiVersion: v2\n":    "damaged",
		"current-context: []": "damaged",
	} {
		file := filepath.Join(t.TempDir(), "config")
		write(t, file, text)
		err := contexts.Add(file, "kapok-a", t.TempDir(), serverAt("1"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != text {
			t.Errorf("%q: the file is %q, %v", text, data, err)
		}
	}
	if err := contexts.Add(t.TempDir(), "kapok-a", t.TempDir(), serverAt("1")); err == nil {
		t.Error("a directory is accepted")
	}
	file := filepath.Join(t.TempDir(), "config")
	write(t, file, "")
	must(t, contexts.Add(file, "kapok-a", t.TempDir(), serverAt("1")))
}

// A symbolic link stays one, and the file that it leads to changes.
func TestLink(t *testing.T) {
	target, link := filepath.Join(t.TempDir(), "config"), filepath.Join(t.TempDir(), "config")
	write(t, target, others)
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err)
	}
	must(t, contexts.Add(link, "kapok-a", t.TempDir(), serverAt("1")))
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if _, config := read(t, target); config.Contexts["kapok-a"] == nil || config.Contexts["work"] == nil {
		t.Errorf("contexts %v", config.Contexts)
	}
}

// Many at once lose nothing.
func TestAtOnce(t *testing.T) {
	file, dir := filepath.Join(t.TempDir(), "config"), t.TempDir()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			if err := contexts.Add(file, "kapok-"+string(rune('a'+i)), dir, serverAt("1")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, config := read(t, file); len(config.Contexts) != 4 {
		t.Errorf("contexts: %d", len(config.Contexts))
	}
}

// A lock that a killed process left behind is an error that names it.
func TestStaleLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	write(t, file, others)
	write(t, file+".lock", "")
	must(t, os.Chtimes(file+".lock", time.Time{}, time.Now().Add(-time.Hour)))
	if err := contexts.Add(file, "kapok-a", t.TempDir(), serverAt("1")); err == nil || !strings.Contains(err.Error(), file+".lock: delete that file") {
		t.Errorf("Add: %v", err)
	}
	if got, _ := read(t, file); got != others {
		t.Errorf("the file has changed:\n%s", got)
	}
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	list := a + string(os.PathListSeparator) + string(os.PathListSeparator) + b
	t.Setenv("KUBECONFIG", list)
	if got := contexts.File(); got != b {
		t.Errorf("no file exists: %s, want %s", got, b)
	}
	write(t, b, "")
	if got := contexts.File(); got != b {
		t.Errorf("b exists: %s", got)
	}
	write(t, a, "")
	if got := contexts.File(); got != a {
		t.Errorf("both exist: %s, want %s", got, a)
	}
	t.Setenv("KUBECONFIG", "")
	if got := contexts.File(); got != clientcmd.RecommendedHomeFile {
		t.Errorf("without KUBECONFIG: %s", got)
	}
}
