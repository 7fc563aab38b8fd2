package port

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// sortImports sorts the imports of a file as gofmt does, but moves comments with their imports:
// gofmt leaves the comment above the first import of a group in its place.
func sortImports(src []byte) ([]byte, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, decl := range slices.Backward(f.Decls) {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.IMPORT || !d.Lparen.IsValid() {
			continue
		}
		for _, group := range slices.Backward(groups(fset, d)) {
			src = sortGroup(fset, src, group)
		}
	}
	return src, nil
}

// groups returns the imports of a declaration that are between empty lines and comments.
func groups(fset *token.FileSet, d *ast.GenDecl) (all [][]*ast.ImportSpec) {
	last := -1
	for _, spec := range d.Specs {
		s := spec.(*ast.ImportSpec)
		if line := fset.Position(s.Pos()).Line; len(all) == 0 || line > last+1 {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], s)
		last = fset.Position(s.End()).Line
	}
	return all
}

// sortGroup sorts the lines of a group.
func sortGroup(fset *token.FileSet, src []byte, group []*ast.ImportSpec) []byte {
	type chunk struct {
		path, name string
		text       []byte
	}
	file := fset.File(group[0].Pos())
	lineEnd := func(pos token.Pos) int {
		end := file.Offset(pos)
		if n := bytes.IndexByte(src[end:], '\n'); n >= 0 {
			return end + n + 1
		}
		return len(src)
	}
	lineStart := func(pos token.Pos) int { return file.Offset(file.LineStart(file.Line(pos))) }
	begin := lineStart(group[0].Pos())
	if doc := group[0].Doc; doc != nil {
		begin = lineStart(doc.Pos())
	}
	var chunks []chunk
	at := begin
	for _, s := range group {
		end := lineEnd(s.End())
		if end <= at {
			return src // two imports on one line
		}
		c := chunk{path: s.Path.Value, text: src[at:end]}
		if s.Name != nil {
			c.name = s.Name.Name
		}
		chunks = append(chunks, c)
		at = end
	}
	slices.SortStableFunc(chunks, func(a, b chunk) int {
		if n := strings.Compare(a.path, b.path); n != 0 {
			return n
		}
		return strings.Compare(a.name, b.name)
	})
	sorted := slices.Clone(src[:begin])
	for _, c := range chunks {
		sorted = append(sorted, c.text...)
	}
	return append(sorted, src[at:]...)
}
