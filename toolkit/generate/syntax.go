package generate

import (
	"go/ast"
	"go/token"
	"runtime"
	"slices"
	"strconv"

	"github.com/kapok-dev/kapok/toolkit/internal/sources"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
)

// parseFor parses the packages that generators will reach, in place of controller-tools, which parses and keeps all bodies of
// functions, and that checks the signatures of the functions of dependencies. Packages that cannot be parsed, and those that
// generators need nevertheless, are left to controller-tools.
func parseFor(roots []*loader.Package, all genall.Generators, files *token.FileSet) {
	filters := all.CheckFilters()
	reached := map[*loader.Package]bool{}
	for _, root := range roots {
		reached[root] = true
	}
	for next := roots; len(next) > 0; {
		parseAll(next, roots, files)
		var found []*loader.Package
		for _, p := range next {
			for _, imported := range referenced(p, filters) {
				if !reached[imported] {
					reached[imported] = true
					found = append(found, imported)
				}
			}
		}
		next = found
	}
}

// parseAll parses packages in parallel.
func parseAll(all, roots []*loader.Package, files *token.FileSet) {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	parsed := make([][]*ast.File, len(all))
	for i, p := range all {
		if p.Syntax != nil {
			continue
		}
		parsed[i] = make([]*ast.File, len(p.CompiledGoFiles))
		release := sources.IsRelease(p.Package)
		for j, name := range p.CompiledGoFiles {
			group.Go(func() error {
				// controller-tools parses again what cannot be parsed, and reports the error.
				parsed[i][j], _ = sources.ParseFile(files, name, release)
				return nil
			})
		}
	}
	_ = group.Wait() // its functions return no errors
	for i, p := range all {
		if len(parsed[i]) == 0 || slices.Contains(parsed[i], nil) {
			continue
		}
		if !slices.Contains(roots, p) {
			for _, file := range parsed[i] {
				sources.EmptySignatures(file)
			}
		}
		p.Syntax = parsed[i]
	}
}

// referenced returns the imported packages to which the types of a package refer, in parts that pass one of the filters.
func referenced(p *loader.Package, filters []loader.NodeFilter) (all []*loader.Package) {
	imports := p.Imports()
	for _, file := range p.Syntax {
		named := map[string]*loader.Package{}
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			imported := imports[path]
			switch {
			case err != nil || imported == nil:
			case spec.Name == nil:
				named[imported.Name] = imported
			case spec.Name.Name == ".":
				all = append(all, imported)
			default:
				named[spec.Name.Name] = imported
			}
		}
		visit := func(node ast.Node) bool {
			if !slices.ContainsFunc(filters, func(passes loader.NodeFilter) bool { return passes(node) }) {
				return false
			}
			if s, ok := node.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && named[x.Name] != nil {
					all = append(all, named[x.Name])
					return false
				}
			}
			return true
		}
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.TYPE {
				for _, spec := range d.Specs {
					ast.Inspect(spec.(*ast.TypeSpec).Type, func(node ast.Node) bool { return node != nil && visit(node) })
				}
			}
		}
	}
	return all
}
