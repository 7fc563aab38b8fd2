// Command gen writes names.txt, which lists the exported names of the packages of the framework,
// one a line. With -print it prints them.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// roots are the directories of the framework, and of its packages for tests.
var roots = []string{"client", "cache", "workqueue", "controller", "manager", "webhook", "ctrl", "kapoktest/fake"}

func main() {
	var out bytes.Buffer
	for _, root := range roots {
		err := filepath.WalkDir(filepath.Join("../..", root), func(dir string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case !d.IsDir():
				return nil
			case d.Name() == "internal" || d.Name() == "testdata":
				return fs.SkipDir
			}
			names, err := exported(dir)
			if err != nil || len(names) == 0 {
				return err
			}
			rel, err := filepath.Rel("../..", dir)
			fmt.Fprintf(&out, "%s: %s\n", filepath.ToSlash(rel), strings.Join(names, " "))
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if len(os.Args) > 1 && os.Args[1] == "-print" {
		os.Stdout.Write(out.Bytes())
		return
	}
	if err := os.WriteFile("names.txt", out.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}

// exported returns the exported names of a package, each with the package's name.
func exported(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	name, names := "", map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		name = f.Name.Name
		for _, decl := range f.Decls {
			for _, ident := range declared(decl) {
				if ident.IsExported() {
					names[ident.Name] = true
				}
			}
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	var sorted []string
	for n := range names {
		sorted = append(sorted, n)
	}
	slices.Sort(sorted)
	return append([]string{name}, sorted...), nil
}

func declared(decl ast.Decl) (all []*ast.Ident) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			all = append(all, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				all = append(all, s.Name)
			case *ast.ValueSpec:
				all = append(all, s.Names...)
			}
		}
	}
	return all
}
