package dev_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/dev"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestMain plays the programs that Run runs besides go: with the argument generate it is kapok
// generate, with kustomize it prints the manifests of the project.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "generate":
			if data, err := os.ReadFile("api/types.go"); err != nil || bytes.Contains(data, []byte("wrong")) {
				fmt.Fprintln(os.Stderr, "kapok: api/types.go:1:1: wrong")
				os.Exit(1)
			}
			return
		case "kustomize":
			data, err := os.ReadFile("config/manifests.yaml")
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Stdout.Write(data)
			return
		}
	}
	goleak.VerifyTestMain(m)
}

const program = `package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"example.com/project/api"
)

func main() {
	config, err := os.ReadFile(os.Getenv("KUBECONFIG"))
	if err != nil {
		panic(err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	fmt.Println("hello", api.Version, os.Getenv("COLOR"), os.Args[1:], len(config) > 0)
	<-stop
	fmt.Println("goodbye", api.Version)
}
`

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, required: [spec], properties: {spec: {type: object, properties: {color: {type: string, maxLength: 5}}}}}}
`

const manifests = definition + `---
apiVersion: v1
kind: Namespace
metadata: {name: system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager, namespace: system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: system}
spec:
  template:
    spec:
      serviceAccountName: manager
      containers:
      - name: manager
        env:
        - {name: COLOR, value: red}
`

// A project is a directory with an operator, and what Run printed so far.
type project struct {
	*testing.T
	dir  string
	mu   sync.Mutex
	out  bytes.Buffer
	more chan struct{} // closed by the next Write
}

func (p *project) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.more)
	p.more = make(chan struct{})
	return p.out.Write(data)
}

func (p *project) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *project) write(name, text string) {
	p.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.Fatal(err)
	}
}

// await waits for a text that is printed.
func (p *project) await(text string) {
	p.Helper()
	p.awaitTimes(1, text)
}

// awaitTimes waits until a text was printed so many times.
func (p *project) awaitTimes(n int, text string) {
	p.Helper()
	limit := time.After(2 * time.Minute)
	for {
		p.mu.Lock()
		count, more := strings.Count(p.out.String(), text), p.more
		p.mu.Unlock()
		if count >= n {
			return
		}
		select {
		case <-more:
		case <-limit:
			p.Fatalf("%q is printed %d times, want %d:\n%s", text, count, n, p.printed())
		}
	}
}

func newProject(t *testing.T) *project {
	p := &project{T: t, dir: t.TempDir(), more: make(chan struct{})}
	p.write("go.mod", "module example.com/project\n\ngo 1.26\n")
	p.write("cmd/main.go", program)
	p.write("api/types.go", "package api\n\nconst Version = 1\n")
	p.write("PROJECT", "")
	p.write("config/default/kustomization.yaml", "")
	p.write("config/manifests.yaml", manifests)
	p.write("config/samples/kustomization.yaml", "resources: [widget.yaml]\n")
	p.write("config/samples/widget.yaml", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec:\n  # TODO\n")
	return p
}

// TestRun edits a project while it runs.
func TestRun(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	c, err := client.New(server.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	color := func() string {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, u); err != nil {
			t.Fatal(err)
		}
		color, _, _ := unstructured.NestedString(u.Object, "spec", "color")
		return color
	}
	p := newProject(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- dev.Run(ctx, dev.Options{
			Project: p.dir, Dir: t.TempDir(), Args: []string{"--flag"}, Samples: true, Out: p, Interval: 20 * time.Millisecond,
			Generate: []string{self, "generate"}, Kustomize: []string{self, "kustomize"},
			Config: server.Config(), Kubeconfig: server.Kubeconfig(),
		})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !strings.HasSuffix(p.printed(), "operator | goodbye 3\n") {
			t.Errorf("the operator has not ended:\n%s", p.printed())
		}
	}()
	p.await("operator | hello 1 red [--flag] true\n")
	p.await("apply    | Widget default/a\n")

	// A change of the source is built, and one that is wrong leaves the program alone.
	p.write("api/types.go", "package api\n\nconst Version = 2\n")
	p.await("operator | hello 2 red")
	p.await("operator | goodbye 1\n")
	p.write("api/types.go", "package api\n\nconst Version = wrong\n")
	p.await("error    | api/types.go:1:1: wrong\n")
	p.write("api/types.go", "package api\n\nconst Version = none\n")
	p.await("error    | api/types.go:3:17: undefined: none\n")
	if strings.Contains(p.printed(), "goodbye 2") {
		t.Errorf("the operator has ended:\n%s", p.printed())
	}

	// A change of a sample is applied, of manifests, too.
	p.write("api/types.go", "package api\n\nconst Version = 3\n")
	p.await("operator | hello 3 red")
	p.write("config/samples/widget.yaml", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {color: orange}\n")
	p.await(`error    | apply Widget a: Widget.example.com "a" is invalid: spec.color: Too long`)
	p.write("config/manifests.yaml", strings.Replace(manifests, "maxLength: 5", "maxLength: 6", 1))
	p.awaitTimes(2, "apply    | Widget default/a\n")
	if color() != "orange" {
		t.Errorf("the color is %q", color())
	}
	p.write("config/manifests.yaml", strings.NewReplacer("maxLength: 5", "maxLength: 6", "value: red", "value: blue").Replace(manifests))
	p.await("operator | hello 3 blue")

	// What is deleted on the server comes back with the next change of the manifests. What is removed
	// from the project is deleted, and a kind that the server does not have is left out.
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount"}}
	u.SetName("manager")
	u.SetNamespace("system")
	if err := c.Delete(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer("maxLength: 5", "maxLength: 7", "value: red", "value: blue").Replace(manifests)
	p.write("config/manifests.yaml", changed+"---\napiVersion: example.org/v1\nkind: Other\nmetadata: {name: x}\n")
	p.await("apply    | Other x is left out: the server does not have this kind\n")
	p.awaitTimes(2, "apply    | ServiceAccount system/manager\n")

	// A sample that cannot be read is no sample that was removed.
	p.write("config/samples/widget.yaml", "kind: [\n")
	p.await("error    | read widget.yaml: ")
	color()
	if err := os.Remove(filepath.Join(p.dir, "config/samples/widget.yaml")); err != nil {
		t.Fatal(err)
	}
	p.await("delete   | Widget default/a\n")

	// An operator that ends is reported.
	p.write("cmd/main.go", "package main\n\nfunc main() { panic(\"at once\") }\n")
	p.await("operator | panic: at once\n")
	p.await("operator | has ended: exit status 2. It starts again after the next change.\n")
	p.write("cmd/main.go", program)
	p.awaitTimes(2, "operator | hello 3 blue")
}

// TestNoProject checks the errors of what cannot begin.
func TestNoProject(t *testing.T) {
	err := dev.Run(t.Context(), dev.Options{Project: t.TempDir(), Dir: t.TempDir(), Out: &bytes.Buffer{}})
	if err == nil || !strings.Contains(err.Error(), "is not the root of a project") || !strings.Contains(err.Error(), "go.mod") {
		t.Errorf("the error is %v", err)
	}
	p := newProject(t)
	for want, o := range map[string]dev.Options{
		"--main ./api is not one main package": {Main: "./api"},
		"delve is not installed":               {DebugPort: 1},
	} {
		t.Setenv("PATH", filepath.Dir(goProgram(t)))
		o.Project, o.Dir, o.Out = p.dir, t.TempDir(), p
		if err := dev.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

func goProgram(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
