// Package corpus has definitions of operators for tests, from the modules of these operators.
package corpus

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// operators are the directories with the definitions of operators, in modules of the corpus.
var operators = []struct{ module, dir string }{
	{"github.com/argoproj/argo-cd/v3", "manifests/crds"},
	{"github.com/argoproj/argo-rollouts", "manifests/crds"},
	{"github.com/cert-manager/cert-manager", "deploy/crds"},
	{"github.com/elastic/cloud-on-k8s/v3", "config/crds/v1/resources"},
	{"github.com/external-secrets/external-secrets", "config/crds/bases"},
	{"github.com/fluxcd/source-controller", "config/crd/bases"},
	{"github.com/kedacore/keda/v2", "config/crd/bases"},
	{"github.com/kyverno/kyverno", "config/crds"},
	{"github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd-full"},
	{"github.com/vmware-tanzu/velero", "config/crd"},
	{"istio.io/api", "kubernetes"},
	{"knative.dev/serving", "config/core/300-resources"},
	{"sigs.k8s.io/cluster-api", "core/config/crd/bases"},
	{"sigs.k8s.io/cluster-api", "controlplane/kubeadm/config/crd/bases"},
	{"sigs.k8s.io/cluster-api", "bootstrap/kubeadm/config/crd/bases"},
	{"sigs.k8s.io/gateway-api", "config/crd/experimental"},
	{"sigs.k8s.io/karpenter", "pkg/apis/crds"},
}

// Dirs downloads the modules, and returns the directories with definitions in them. The working directory must be that of a package
// of the toolkit.
func Dirs(t testing.TB) []string {
	t.Helper()
	modules := download(t)
	var dirs []string
	for _, operator := range operators {
		dirs = append(dirs, filepath.Join(modules[operator.module], operator.dir))
	}
	return dirs
}

// Definitions returns the definitions of all operators.
func Definitions(t testing.TB) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, dir := range Dirs(t) {
		err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for document := range strings.SplitSeq(string(data), "\n---") {
				crd := &apiextensionsv1.CustomResourceDefinition{}
				if err := yaml.Unmarshal([]byte(document), crd); err == nil && crd.Kind == "CustomResourceDefinition" {
					all = append(all, crd)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// download returns the directories of the modules.
func download(t testing.TB) map[string]string {
	t.Helper()
	args := []string{"mod", "download", "-json"}
	for _, operator := range operators {
		if !slices.Contains(args, operator.module) {
			args = append(args, operator.module)
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = "../../test/corpus/operators/testdata/modules"
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go mod download: %v", err)
	}
	dirs := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var m struct{ Path, Dir, Error string }
		if err := d.Decode(&m); err != nil || m.Error != "" {
			t.Fatalf("download %s: %v %s", m.Path, err, m.Error)
		}
		dirs[m.Path] = m.Dir
	}
	return dirs
}
