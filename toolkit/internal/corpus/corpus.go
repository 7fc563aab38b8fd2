// Package corpus has definitions of operators for tests, from the modules of these operators.
package corpus

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// modules is the directory of the module that requires those of the operators, from a package of
// the toolkit.
const modules = "../../test/corpus/operators/testdata/modules"

var separator = regexp.MustCompile(`(?m)^---.*\n`)

// Definitions downloads the modules and returns the definitions in their files, in the order of
// their names: of several with one name, the largest. The working directory must be that of a
// package of the toolkit.
func Definitions(t testing.TB) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	largest := map[string]*apiextensionsv1.CustomResourceDefinition{}
	sizes := map[string]int{}
	for _, dir := range download(t) {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, document := range separator.Split(string(data), -1) {
				if crd := definition(document); crd != nil && len(document) > sizes[crd.Name] {
					largest[crd.Name], sizes[crd.Name] = crd, len(document)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, name := range slices.Sorted(maps.Keys(largest)) {
		all = append(all, largest[name])
	}
	return all
}

var isDefinition = regexp.MustCompile(`(?m)^kind: "?CustomResourceDefinition"?\s*$`)

// definition returns the definition that a document is; nil if it is something else, a patch, a
// template, or has a version without a schema, as v1beta1 permits.
func definition(document string) *apiextensionsv1.CustomResourceDefinition {
	if !isDefinition.MatchString(document) {
		return nil
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(document), crd); err != nil || crd.APIVersion != "apiextensions.k8s.io/v1" || crd.Name != crd.Spec.Names.Plural+"."+crd.Spec.Group {
		return nil
	}
	for _, v := range crd.Spec.Versions {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			return nil
		}
	}
	return crd
}

// Write writes definitions to files in a directory, one in each.
func Write(t testing.TB, dir string, definitions []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	for _, crd := range definitions {
		data, err := yaml.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, crd.Name+".yaml"), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// download returns the directories of the modules.
func download(t testing.TB) []string {
	t.Helper()
	var file struct{ Require []struct{ Path string } }
	if err := json.Unmarshal(goCommand(t, "mod", "edit", "-json"), &file); err != nil {
		t.Fatal(err)
	}
	args := []string{"mod", "download", "-json"}
	for _, m := range file.Require {
		args = append(args, m.Path)
	}
	var dirs []string
	for d := json.NewDecoder(bytes.NewReader(goCommand(t, args...))); d.More(); {
		var m struct{ Path, Dir, Error string }
		if err := d.Decode(&m); err != nil || m.Error != "" {
			t.Fatalf("download %s: %v %s", m.Path, err, m.Error)
		}
		dirs = append(dirs, m.Dir)
	}
	return dirs
}

func goCommand(t testing.TB, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = modules
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %v: %v", args, err)
	}
	return out
}
