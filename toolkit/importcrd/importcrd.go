package importcrd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
	// Names are definitions of the server, such as crontabs.stable.example.com, and Groups are groups of
	// which all definitions are imported.
	Names, Groups []string
	// Kubeconfig and Context select the server as kubectl does. Default: $KUBECONFIG or ~/.kube/config, and
	// its current context.
	Kubeconfig, Context string
	// Dir is the directory in which each version becomes a package: GROUP/VERSION. It is in the module of
	// the working directory. Default: apis.
	Dir string
}

// A Result tells what Run has done. The files are relative to the working directory.
type Result struct {
	// Written are the files whose content has changed.
	Written []string
	// Definitions are the names of the imported definitions.
	Definitions []string
	// Differences are, by the name of a definition, the parts of its spec that the types do not give again,
	// as path: what. They do not have conversion, nor white space in descriptions.
	Differences map[string][]string
}

// modules are the modules that the types import.
var modules = []string{"k8s.io/apimachinery", "k8s.io/apiextensions-apiserver"}

// Run imports definitions. If it returns an error, no file has changed but go.mod and go.sum, to which
// it adds the modules that the types need.
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

// deepCopies is the file that controller-gen writes in a package.
const deepCopies = "zz_generated.deepcopy.go"

// contents returns what files have now, and the deep copies beside them; nil is a file that does not exist.
// Files that are not of an earlier import are an error.
func contents(files map[string][]byte) (map[string][]byte, error) {
	before := map[string][]byte{}
	for path := range files {
		for _, path := range []string{path, filepath.Join(filepath.Dir(path), deepCopies)} {
			data, err := os.ReadFile(path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				before[path] = nil
				continue
			case err != nil:
				return nil, err
			case filepath.Base(path) != deepCopies && !bytes.Contains(data, []byte(header)):
				return nil, fmt.Errorf("%s exists and was not made by kapok import: remove it, or choose another directory by --dir", path)
			}
			before[path] = data
		}
	}
	return before, nil
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
		return fmt.Errorf("the kind %q of %s is no exported name in Go", kind, d.Name)
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

// goFiles returns the Go files for definitions, by their paths.
func goFiles(definitions []definition, dir string) (map[string][]byte, *Result, error) {
	boilerplate, err := os.ReadFile("hack/boilerplate.go.txt")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	head := ""
	if len(boilerplate) > 0 {
		head = strings.TrimRight(string(boilerplate), "\n") + "\n\n"
	}
	result := &Result{Differences: map[string][]string{}}
	files := map[string][]byte{}
	taken := map[string]scope{}
	for _, d := range definitions {
		for _, v := range d.Spec.Versions {
			at := filepath.Join(dir, d.Spec.Group, packageName(v.Name))
			if taken[at] == nil {
				if taken[at], err = declared(at, definitions); err != nil {
					return nil, nil, err
				}
				for _, name := range []string{"GroupVersion", "SchemeBuilder", "AddToScheme"} {
					taken[at][name] = true
				}
			}
			for _, name := range []string{d.Spec.Names.Kind, d.Spec.Names.Kind + "List"} {
				if taken[at][name] {
					return nil, nil, fmt.Errorf("%s: %s has a type %s already; import the definitions of the group together", d.Name, at, name)
				}
				taken[at][name] = true
			}
		}
	}
	for _, d := range definitions {
		result.Definitions = append(result.Definitions, d.Name)
		for i := range d.Spec.Versions {
			v := &d.Spec.Versions[i]
			pkg := packageName(v.Name)
			at := filepath.Join(dir, d.Spec.Group, pkg)
			k, err := newKind(d.CustomResourceDefinition, v, taken[at])
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", d.Name, err)
			}
			if files[filepath.Join(at, typesFile(k.root.name))], err = k.source(head, pkg); err != nil {
				return nil, nil, err
			}
			if slices.ContainsFunc(append(k.types, k.root), func(t *goType) bool { return t.unknown }) {
				if files[filepath.Join(at, unknownFile)], err = unknownFields(head, pkg); err != nil {
					return nil, nil, err
				}
			}
			if files[filepath.Join(at, versionFile)], err = groupVersion(head, pkg, d.Spec.Group, v.Name); err != nil {
				return nil, nil, err
			}
		}
	}
	return files, result, nil
}

// declared returns the names that the files of a package declare, except for those that an import of
// definitions replaces.
func declared(dir string, definitions []definition) (scope, error) {
	replaced := map[string]bool{versionFile: true, unknownFile: true, deepCopies: true}
	for _, d := range definitions {
		replaced[typesFile(d.Spec.Names.Kind)] = true
	}
	names := scope{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if replaced[filepath.Base(path)] {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						names[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, name := range s.Names {
							names[name.Name] = true
						}
					}
				}
			}
		}
	}
	return names, nil
}

// The files of a package.
const (
	versionFile = "groupversion_info.go"
	unknownFile = "unknown.go"
)

func typesFile(kind string) string { return strings.ToLower(kind) + "_types.go" }

// addModules adds to go.mod what the files import, unless it is there, in the version of this program.
func addModules(ctx context.Context, files map[string][]byte) error {
	packages := map[string]bool{}
	for path, source := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil {
				packages[path] = true
			}
		}
	}
	args := []string{"get"}
	for _, module := range modules {
		var wanted []string
		for path := range packages {
			if strings.HasPrefix(path, module+"/") {
				wanted = append(wanted, path+"@"+generate.VersionOf(module))
			}
		}
		if len(wanted) > 0 && exec.CommandContext(ctx, "go", "list", "-m", module).Run() != nil {
			slices.Sort(wanted)
			args = append(args, wanted...) // packages, not the module: go.sum gets what they import
		}
	}
	if len(args) == 1 {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("add %s to go.mod: %w\n%s", strings.Join(args[1:], ", "), err, out)
	}
	return nil
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

// directories returns those that exist among the directories of files and the ones above.
func directories(files map[string][]byte) map[string]bool {
	there := map[string]bool{}
	for path := range files {
		for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
			if _, err := os.Stat(dir); err == nil {
				there[dir] = true
			}
		}
	}
	return there
}

// restore makes files what they were before, and removes directories that were not there.
func restore(before map[string][]byte, there map[string]bool) error {
	var errs []error
	for path, data := range before {
		if data != nil {
			errs = append(errs, os.WriteFile(path, data, 0o644))
		} else if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for path := range before {
		for dir := filepath.Dir(path); dir != "." && !there[dir] && os.Remove(dir) == nil; dir = filepath.Dir(dir) {
			continue
		}
	}
	return errors.Join(errs...)
}
