package importcrd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Options configure Run. At least one of Files, Names and Groups is needed.
type Options struct {
	// Files are files and directories with definitions; "-" is Stdin.
	Files []string
	Stdin io.Reader
	// Names are definitions of the server, such as crontabs.stable.example.com, and Groups are groups
	// of which all definitions are imported.
	Names, Groups []string
	// Kubeconfig and Context select the server as kubectl does. Default: $KUBECONFIG or
	// ~/.kube/config, and its current context.
	Kubeconfig, Context string
	// Dir is the directory in which each version becomes a package: GROUP/VERSION. It is in the module
	// of the working directory. Default: apis.
	Dir string
}

// A Result tells what Run has done. The files are relative to the working directory.
type Result struct {
	// Written are the files whose content has changed.
	Written []string
	// Definitions are the names of the imported definitions.
	Definitions []string
	// Differences are, by the name of a definition, the parts of its spec that the types do not give
	// again, as path: what. They do not have conversion, nor white space in descriptions.
	Differences map[string][]string
}

// Run imports definitions. If it returns an error, no file has changed but go.mod and go.sum, to
// which it adds the modules that the types need.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Dir == "" {
		o.Dir = "apis"
	}
	if err := checkDir(ctx, o.Dir); err != nil {
		return nil, err
	}
	definitions, err := read(ctx, o)
	if err != nil {
		return nil, err
	}
	files, result, err := goFiles(definitions, o.Dir)
	if err != nil {
		return nil, err
	}
	if err := addModules(ctx, files); err != nil {
		return nil, err
	}
	before, err := contents(files)
	if err != nil {
		return nil, err
	}
	there := directories(before)
	if err := generateFrom(ctx, definitions, files, before, result); err != nil {
		return nil, errors.Join(err, restore(before, there))
	}
	slices.Sort(result.Written)
	return result, nil
}

// checkDir returns an error unless a directory is one of the module of the working directory.
func checkDir(ctx context.Context, dir string) error {
	if !filepath.IsLocal(dir) {
		return fmt.Errorf("the directory %s is not below the working directory", dir)
	}
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("run go env: %w", err)
	}
	if mod := strings.TrimSpace(string(out)); mod == "" || mod == os.DevNull {
		return errors.New("there is no go.mod here: create a module by go mod init MODULE, or a project by kapok init")
	}
	return nil
}

// read returns the definitions of the sources, each once, in the order of their names.
func read(ctx context.Context, o Options) ([]definition, error) {
	all, err := readFiles(o.Files, o.Stdin)
	if err != nil {
		return nil, err
	}
	for _, name := range o.Names {
		if _, err := os.Stat(name); err == nil {
			return nil, fmt.Errorf("%s is a file, not the name of a definition: import it by -f %[1]s", name)
		}
	}
	if len(o.Names)+len(o.Groups) > 0 {
		fetched, err := fetch(ctx, o)
		if err != nil {
			return nil, err
		}
		all = append(all, fetched...)
	}
	if len(all) == 0 {
		from := strings.Join(o.Files, ", ")
		if from == "-" {
			from = "the standard input"
		}
		return nil, fmt.Errorf("no CustomResourceDefinition in %s", from)
	}
	byName := map[string]definition{}
	for _, d := range all {
		if err := check(d); err != nil {
			return nil, fmt.Errorf("%s: %w", d.from, err)
		}
		if first, ok := byName[d.Name]; ok && !equalSpecs(first, d) {
			return nil, fmt.Errorf("%s is defined twice, in %s and in %s", d.Name, first.from, d.from)
		}
		byName[d.Name] = d
	}
	definitions := slices.Collect(maps.Values(byName))
	slices.SortFunc(definitions, func(a, b definition) int { return strings.Compare(a.Name, b.Name) })
	return definitions, nil
}

// check returns an error for a definition from which no Go code can be made.
func check(d definition) error {
	if d.Spec.Group == "" || len(validation.IsDNS1123Subdomain(d.Spec.Group)) > 0 {
		return fmt.Errorf("the definition %q has the group %q", d.Name, d.Spec.Group)
	}
	if want := d.Spec.Names.Plural + "." + d.Spec.Group; d.Name != want {
		return fmt.Errorf("the definition is called %q, want %q", d.Name, want)
	}
	if kind := d.Spec.Names.Kind; goName(kind) != kind {
		return fmt.Errorf("the kind %q of %s is not a valid exported name in Go", kind, d.Name)
	}
	if stored := slices.ContainsFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage }); !stored {
		return fmt.Errorf("the definition %s has no version that is stored", d.Name)
	}
	for _, v := range d.Spec.Versions {
		if len(validation.IsDNS1035Label(v.Name)) > 0 || token.IsKeyword(packageName(v.Name)) {
			return fmt.Errorf("the definition %s has the version %q", d.Name, v.Name)
		}
	}
	return nil
}

func equalSpecs(a, b definition) bool {
	differ, err := differences(a.CustomResourceDefinition, b.CustomResourceDefinition)
	return err == nil && len(differ) == 0
}

// generateFrom writes the files, and runs the generators over their packages: deep copies, and the
// definitions, which are compared.
func generateFrom(ctx context.Context, definitions []definition, files, before map[string][]byte, result *Result) error {
	packages := map[string]bool{}
	for path, data := range files {
		packages[filepath.Dir(path)] = true
		// The comparison needs definitions. Afterwards, those of a project are without these.
		if filepath.Base(path) == versionFile {
			data = bytes.Replace(data, []byte(skipMarker), nil, 1)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	made, err := os.MkdirTemp("", "kapok-import-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(made)
	args := []string{generate.ObjectArg(), "crd:allowDangerousTypes=true", "output:crd:dir=" + made}
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		args = append(args, "./"+filepath.ToSlash(pkg))
	}
	generated, err := generate.Run(ctx, generate.Options{Args: args})
	if err != nil {
		return fmt.Errorf("generate from the types: %w", err)
	}
	for _, path := range generated.Written {
		if !filepath.IsAbs(path) {
			result.Written = append(result.Written, path)
		}
	}
	for path, data := range files {
		if filepath.Base(path) == versionFile {
			if err := os.WriteFile(path, data, 0o644); err != nil {
				return err
			}
		}
		if !bytes.Equal(before[path], data) {
			result.Written = append(result.Written, path)
		}
	}
	for _, d := range definitions {
		data, err := os.ReadFile(filepath.Join(made, d.Spec.Group+"_"+d.Spec.Names.Plural+".yaml"))
		if err != nil {
			return fmt.Errorf("generate %s from its types: %w", d.Name, err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(data, crd); err != nil {
			return fmt.Errorf("decode %s, generated from its types: %w", d.Name, err)
		}
		differ, err := differences(d.CustomResourceDefinition, crd)
		if err != nil {
			return err
		}
		if len(differ) > 0 {
			result.Differences[d.Name] = differ
		}
	}
	return nil
}
