package generate

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestMakefile reads the options of controller-gen from Makefiles.
func TestMakefile(t *testing.T) {
	const manifests = "manifests: controller-gen ## Generate.\n"
	for _, tc := range []struct {
		name, text string
		want       [][]string
		err        string
	}{
		{"none", "", nil, ""},
		{"no controller-gen", "generate:\n\tgo generate ./...\n", nil, ""},
		{"of kubebuilder", "CONTROLLER_GEN ?= $(LOCALBIN)/controller-gen\nYEAR ?= 2026\n" + manifests +
			"\t\"$(CONTROLLER_GEN)\" rbac:roleName=manager-role crd paths=\"./...\" output:crd:artifacts:config=config/crd/bases\n" +
			"generate: controller-gen\n\t\"$(CONTROLLER_GEN)\" object:headerFile=\"hack/boilerplate.go.txt\",year=$(YEAR) paths=\"./...\"\n", [][]string{{
			"rbac:roleName=manager-role", "crd", "paths=./...", "output:crd:artifacts:config=config/crd/bases", "object:headerFile=hack/boilerplate.go.txt,year=2026",
		}}, ""},
		{"variables of variables", "A = crd:maxDescLen=$(N)\nN := 0\nN += # none\nCRD_OPTIONS ?= \"$A,$(A)\"\nCRD_OPTIONS ?= no\nB = $(A)\n" + manifests + "\t@$(CONTROLLER_GEN) ${B} paths=./api/...\n",
			[][]string{{"crd:maxDescLen=0", "paths=./api/..."}}, ""},
		{"several lines and runs", manifests + "\t$(CONTROLLER_GEN) \\\n\t\tcrd \\\n\t\tpaths=./a/... && echo done\n\tgo run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.19.0 'object' paths=./b/...\n\t./bin/controller-gen rbac:roleName=x paths=./a/... # all\n",
			[][]string{{"crd", "paths=./a/...", "rbac:roleName=x"}, {"object", "paths=./b/..."}}, ""},
		{"targets that others need", "generate: a\na: b c\nb:\n\tgo tool controller-gen object\nc:\n\ttrue\nd:\n\tcontroller-gen crd\n", [][]string{{"object"}}, ""},
		{"a command", manifests + "\t$(CONTROLLER_GEN) crd paths=$(shell find . -name types)\n", nil, "the target manifests of the Makefile: it is not known what $(shell find . -name types) is"},
		{"an open quote", manifests + "\t$(CONTROLLER_GEN) crd paths='a\n", nil, "a quote is not closed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if tc.text != "" {
				if err := os.WriteFile("Makefile", []byte(tc.text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := makefileRuns()
			if !reflect.DeepEqual(got, tc.want) || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
