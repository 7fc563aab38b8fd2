package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/toolkit/internal/front"
)

// download copies a version of a module into the directory of a project.
func (p *project) download(module string) {
	p.Helper()
	_, out := p.command(os.Environ(), "go", "mod", "download", "-json", module)
	var downloaded struct{ Dir, Error string }
	if err := json.Unmarshal([]byte(out), &downloaded); err != nil || downloaded.Error != "" {
		p.Fatalf("download %s: %s %v", module, out, err)
	}
	if err := os.CopyFS(p.dir, os.DirFS(downloaded.Dir)); err != nil {
		p.Fatal(err)
	}
	p.writable()
}

// toolVersion is the line of a definition with the version of controller-gen.
var toolVersion = regexp.MustCompile(`(?m)^    controller-gen.kubebuilder.io/version: .*$`)

// TestOperatorOfOthers goes on with a project of other people: KubeRay's, which has the layout of
// kubebuilder 3 and options of its own for controller-gen.
func TestOperatorOfOthers(t *testing.T) {
	t.Setenv(front.Self, program(t))
	old := newProject(t)
	old.download("github.com/ray-project/kuberay/ray-operator@v1.5.0")
	const definition = "config/crd/bases/ray.io_rayclusters.yaml"
	files := []string{
		definition, "config/crd/bases/ray.io_rayjobs.yaml", "config/crd/bases/ray.io_rayservices.yaml", "config/rbac/role.yaml", "config/webhook/manifests.yaml",
		"apis/ray/v1/zz_generated.deepcopy.go", "apis/ray/v1alpha1/zz_generated.deepcopy.go",
	}
	was := map[string]string{}
	for _, name := range files {
		was[name] = old.read(name)
		old.write(name, "")
		if strings.HasSuffix(name, ".go") {
			if err := os.Remove(filepath.Join(old.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// What their controller-gen has made comes back, from a version that is newer.
	old.must("generate")
	for _, name := range files {
		if version := toolVersion.FindString(old.read(name)); toolVersion.ReplaceAllString(was[name], version) != old.read(name) {
			t.Errorf("%s differs from what controller-gen has made", name)
		}
	}
	if out := old.must("vet ./apis/..."); out != "" {
		t.Errorf("vet says\n%s", out)
	}
	if code, out := old.run("create api --group ray --version v1 --kind RayCache"); code != 1 || !strings.Contains(out, "kapok alpha generate --output-dir DIRECTORY") {
		t.Errorf("create api in the layout of kubebuilder 3: exit code %d\n%s", code, out)
	}

	// The project in the layout of kubebuilder 4 gets their types and their options, and another kind.
	p := &project{t, filepath.Join(old.temp, "new"), old.temp}
	old.must("alpha generate --output-dir " + p.dir)
	for _, version := range []string{"v1", "v1alpha1"} {
		if err := os.RemoveAll(filepath.Join(p.dir, "api/ray", version)); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(p.dir, "api/ray", version), os.DirFS(filepath.Join(old.dir, "apis/ray", version))); err != nil {
			t.Fatal(err)
		}
	}
	p.write("Makefile", strings.Replace(p.read("Makefile"), " crd webhook ", " crd:maxDescLen=0,generateEmbeddedObjectMeta=true,allowDangerousTypes=true webhook ", 1))
	p.tool("mod", "tidy")
	p.must("create api --group ray --version v1 --kind RayCache")
	if text := p.read(definition); !strings.Contains(text, "rayclusters.ray.io") || strings.Contains(text, "description:") {
		t.Errorf("%s is not made with the options of the Makefile:\n%.300s", definition, text)
	}
	p.read("config/crd/bases/ray.io_raycaches.yaml")
	p.read("internal/controller/ray/raycache_controller.go")
	p.tool("vet", "./api/...", "./internal/controller/...")
	p.must("generate --check")
}

// TestAsControllerGenOnOthers compares the definitions and deep copies of projects with those of
// controller-gen.
func TestAsControllerGenOnOthers(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "controller-gen")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", tool, "sigs.k8s.io/controller-tools/cmd/controller-gen")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, tc := range []struct{ module, options string }{
		{"sigs.k8s.io/cluster-api/api@v1.14.2", "object crd rbac:roleName=manager webhook paths=./... output:rbac:dir=made/rbac output:webhook:dir=made/webhook"},
		{"sigs.k8s.io/external-dns@v0.21.0", "object crd paths=./apis/...;./endpoint/..."},
		{"github.com/cert-manager/cert-manager@v1.21.2", "crd paths=./pkg/apis/certmanager/v1;./pkg/apis/acme/v1"},
		{"sigs.k8s.io/kueue@v0.17.0", "object crd:generateEmbeddedObjectMeta=true,allowDangerousTypes=true paths=./apis/..."},
	} {
		t.Run(strings.NewReplacer("/", " ", "@", " ").Replace(tc.module), func(t *testing.T) {
			p := newProject(t)
			p.download(tc.module)
			options := tc.options + " output:crd:dir=made"
			if code, out := p.command(os.Environ(), tool, strings.Split(options, " ")...); code != 0 {
				t.Fatalf("controller-gen: exit code %d\n%s", code, out)
			}
			judged := p.state()
			definitions := 0
			for path := range judged {
				if name := filepath.Base(path); strings.HasPrefix(path, filepath.Join(p.dir, "made")+string(filepath.Separator)) && strings.HasSuffix(name, ".yaml") || strings.HasPrefix(name, "zz_generated.deepcopy") && strings.Contains(options, "object") {
					definitions++
					if err := os.WriteFile(path, nil, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			for path := range judged {
				if info, err := os.Stat(path); err == nil && info.Size() == 0 && strings.HasSuffix(path, ".go") {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			p.must("generate " + options)
			if changed := changes(judged, p.state()); len(changed) > 0 || definitions == 0 {
				t.Errorf("of %d files, %v differ", definitions, changed)
			}
		})
	}
}
