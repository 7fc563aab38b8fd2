package importcrd

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
			if k.root.unknown || slices.ContainsFunc(k.types, func(t *goType) bool { return t.unknown }) {
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

// declared returns the names that the files of a package declare, except for those that an import
// of definitions replaces.
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

// deepCopies is the file that controller-gen writes in a package.
const deepCopies = "zz_generated.deepcopy.go"

// contents returns what files have now, and the deep copies beside them; nil is a file that does
// not exist. Files that are not of an earlier import are an error.
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
