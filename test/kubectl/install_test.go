package kubectl

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstall installs what projects publish, repeats that without a change, and removes it:
// kustomizations with kubectl, with client-side and server-side apply, and charts with helm and
// with kubectl.
func TestInstall(t *testing.T) {
	dirs := download(t)
	for _, tc := range []struct {
		name    string
		install func(*project)
		path    string // of a directory in a module; it begins with the path of the module
		project
	}{
		{"argo-cd", (*project).kustomization, "github.com/argoproj/argo-cd/v3/manifests/cluster-install", project{namespace: "argocd", large: true}},
		{"argo-rollouts", (*project).kustomization, "github.com/argoproj/argo-rollouts/manifests/cluster-install", project{namespace: "argo-rollouts", large: true}},
		{"keda", (*project).kustomization, "github.com/kedacore/keda/v2/config/default", project{large: true}},
		{"prometheus-operator", (*project).kustomization, "github.com/prometheus-operator/prometheus-operator", project{large: true}},
		{"source-controller", (*project).kustomization, "github.com/fluxcd/source-controller/config/default", project{}},
		{"cert-manager", (*project).chart, "github.com/cert-manager/cert-manager/deploy/charts/cert-manager", project{namespace: "cert-manager", values: "--set crds.enabled=true"}},
		{"eck-operator", (*project).chart, "github.com/elastic/cloud-on-k8s/v3/deploy/eck-operator", project{namespace: "elastic-system", large: true}},
		{"karpenter", (*project).chart, "sigs.k8s.io/karpenter/kwok/charts", project{namespace: "karpenter"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for module, dir := range dirs {
				if rest, within := strings.CutPrefix(tc.path, module+"/"); within || tc.path == module {
					p := tc.project
					p.T, p.server, p.dir = t, start(t), dir
					if p.namespace != "" {
						p.must("kubectl create namespace " + p.namespace)
						p.must("kubectl config set-context --current --namespace " + p.namespace)
					}
					if within {
						p.dir = filepath.Join(dir, rest)
					}
					tc.install(&p)
					return
				}
			}
			t.Fatalf("no module has %s", tc.path)
		})
	}
}

// A project is a set of manifests that one test installs.
type project struct {
	*testing.T
	*server
	dir       string // of the kustomization or of the chart
	namespace string
	values    string // flags of helm
	large     bool   // has definitions that do not fit into the annotation of kubectl apply
}

func (p *project) kustomization() {
	p.apply(p.file("rendered.yaml", p.must("kubectl kustomize "+p.dir)))
}

// apply applies the objects of a file with either kind of apply, twice, and deletes them.
func (p *project) apply(file string) {
	sides := []string{"--server-side", "--server-side=false"}
	if p.large {
		sides = sides[:1]
	}
	for _, side := range sides {
		in := " -f " + file
		versions := "kubectl get -o jsonpath='{range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}'" + in
		p.must("kubectl apply " + side + in)
		p.must("kubectl wait --for=condition=Established --timeout=1m customresourcedefinitions --all")
		// The first apply of an object without content owns nothing of it, and the second reports
		// that.
		p.must("kubectl apply " + side + in)
		before := p.must(versions)
		p.must("kubectl apply " + side + in)
		if after := p.must(versions); after != before {
			p.Errorf("to apply the same %s changes something:\n%s\nbefore:\n%s", side, after, before)
		}
		if out := p.must("kubectl diff " + side + in); out != "" {
			p.Errorf("there is a difference %s:\n%s", side, out)
		}
		p.must("kubectl delete --timeout=1m" + in)
		if out := p.must("kubectl get --ignore-not-found -o name" + in); out != "" {
			p.Errorf("what was deleted is there:\n%s", out)
		}
	}
}

func (p *project) chart() {
	p.must("helm install --no-hooks release " + p.dir + " " + p.values)
	manifest := p.file("manifest.yaml", p.must("helm get manifest release"))
	if out := p.must("kubectl diff --server-side --force-conflicts -f " + manifest); out != "" {
		p.Errorf("what helm has installed differs from its manifest:\n%s", out)
	}
	p.must("helm upgrade --no-hooks --set global.logLevel=4 release " + p.dir + " " + p.values)
	p.must("helm rollback --no-hooks release 1")
	if out := p.must("helm history release -o json"); strings.Count(out, `"revision"`) != 3 {
		p.Errorf("history: %s", out)
	}
	p.must("helm uninstall --no-hooks release")
	// Annotations keep the definitions of some charts.
	if out := p.must("kubectl get --ignore-not-found -o name -f " + manifest + " | sed /^customresourcedefinition/d"); out != "" {
		p.Errorf("what was uninstalled is there:\n%s", out)
	}
	p.apply(manifest)
}

// must runs a command that must succeed, and returns its output without warnings.
func (p *project) must(command string) string {
	p.Helper()
	cmd := exec.CommandContext(p.Context(), "sh", "-c", command)
	cmd.Env = p.env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		p.Fatalf("%s: %v\n%s%s", command, err, out, &stderr)
	}
	return string(out)
}

func (p *project) file(name, content string) string {
	p.Helper()
	path := filepath.Join(p.home, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		p.Fatal(err)
	}
	return path
}

// download runs Go to fetch the modules in testdata/modules/go.mod that are not cached, and returns
// their directories.
func download(t *testing.T) map[string]string {
	t.Helper()
	list := func(args ...string) *json.Decoder {
		cmd := exec.Command("go", args...)
		cmd.Dir = "testdata/modules"
		cmd.Stderr = t.Output()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return json.NewDecoder(bytes.NewReader(out))
	}
	var file struct{ Require []struct{ Path string } }
	if err := list("mod", "edit", "-json").Decode(&file); err != nil {
		t.Fatal(err)
	}
	args := []string{"mod", "download", "-json"}
	for _, m := range file.Require {
		args = append(args, m.Path)
	}
	dirs := map[string]string{}
	for d := list(args...); d.More(); {
		var m struct{ Path, Dir string }
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		dirs[m.Path] = m.Dir
	}
	return dirs
}
