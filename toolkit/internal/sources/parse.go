package sources

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/tools/go/packages"
)

// generated matches the line that says that a file is generated.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// isRelease reports whether a package belongs to Go or to a module at a version, so that its files
// do not change and have no syntax errors.
func isRelease(p *packages.Package) bool {
	m := p.Module
	return m == nil || m.Version != "" && (m.Replace == nil || m.Replace.Version != "")
}

// parseFile parses a file with its comments, but without the bodies of functions. In files named
// doc.go, and where generators may read comments in them, the bodies stay. The bodies are not
// checked in files of releases and in generated files; with shapes, these files lose functions and
// methods that LoadShapes does not load. The error is of package scanner if it is about the syntax.
func parseFile(files *token.FileSet, name string, release, shapes bool) (*ast.File, error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	isDoc := filepath.Base(name) == "doc.go"
	if !isDoc && (release || generated.Match(src[:bytes.Index(append(src, "\npackage "...), []byte("\npackage "))])) {
		cut(src, shapes)
	}
	file, err := parser.ParseFile(files, name, src, parser.ParseComments|parser.SkipObjectResolution|parser.AllErrors)
	if err != nil {
		return nil, err
	}
	if !isDoc {
		dropBodies(file, files.File(file.FileStart), src)
	}
	return file, nil
}

// dropBodies removes the statements of functions, and the comments in them.
func dropBodies(file *ast.File, positions *token.File, src []byte) {
	var dropped []*ast.BlockStmt
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil || !removable(src[positions.Offset(f.Body.Lbrace)+1:positions.Offset(f.Body.Rbrace)]) {
			continue
		}
		f.Body.List = nil
		dropped = append(dropped, f.Body)
	}
	comments := file.Comments[:0]
	for _, c := range file.Comments {
		for len(dropped) > 0 && dropped[0].Rbrace < c.Pos() {
			dropped = dropped[1:]
		}
		if len(dropped) == 0 || c.Pos() < dropped[0].Lbrace {
			comments = append(comments, c)
		}
	}
	clear(file.Comments[len(comments):])
	file.Comments = comments
}
