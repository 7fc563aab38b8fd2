package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"

	"sigs.k8s.io/controller-tools/pkg/markers"
)

// misplaced returns a problem for each marker of a generator that stands where it has no effect:
// one for fields at a type, one for types above a function, and so on.
func misplaced(d *generate.Definitions) []generate.Problem {
	var problems []generate.Problem
	for _, root := range d.Context.Roots {
		root.NeedSyntax()
		for _, file := range root.Syntax {
			places := placesIn(d.Files, file)
			for _, group := range file.Comments {
				for _, comment := range group.List {
					text, isLine := strings.CutPrefix(comment.Text, "//")
					marker := strings.TrimSpace(text)
					if !isLine || !strings.HasPrefix(marker, "+") {
						continue
					}
					if name, where := belongs(d.Known, marker, places[group]); where != "" {
						problems = append(problems, generate.Problem{
							At: d.Position(comment.Pos()), Message: fmt.Sprintf("+%s has no effect here: it belongs %s", name, where),
						})
					}
				}
			}
		}
	}
	return problems
}

// places of a marker.
type target int

const (
	atPackage target = iota // not at a type or field
	aboveType               // above the comment of a type, after an empty line
	atType
	atField
	atEnd // of a line
)

// placesIn returns the comments of a file that belong to types and fields.
func placesIn(files *token.FileSet, file *ast.File) map[*ast.CommentGroup]target {
	places := map[*ast.CommentGroup]target{}
	line := func(p token.Pos) int { return files.Position(p).Line }
	for _, declaration := range file.Decls {
		types, ok := declaration.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE {
			continue
		}
		places[types.Doc] = atType
		begin := types.Pos()
		if types.Doc != nil {
			begin = types.Doc.Pos()
		}
		for _, group := range file.Comments { // a comment above that of the type, after an empty line
			if d := line(begin) - line(group.End()); d > 0 && d <= 2 {
				places[group] = aboveType
			}
		}
		ast.Inspect(types, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				places[n.Doc] = atType
			case *ast.StructType:
				for _, f := range n.Fields.List {
					places[f.Doc] = atField
					places[f.Comment] = atEnd
				}
			}
			return true
		})
		for _, group := range file.Comments { // between two fields
			if _, known := places[group]; !known && types.Pos() < group.Pos() && group.End() < types.End() {
				places[group] = atField
			}
		}
	}
	return places
}

// belongs returns the name of a marker and where it belongs, "" if it is unknown or right at its
// place.
func belongs(known *markers.Registry, marker string, at target) (name, where string) {
	var right []string
	for _, t := range []struct {
		of   markers.TargetType
		name string
		at   []target
	}{
		{markers.DescribesField, "on a field", []target{atField}},
		{markers.DescribesType, "on a type", []target{atType, aboveType}},
		{markers.DescribesPackage, "above the package clause, or in a comment of its own", []target{atPackage, aboveType}},
	} {
		definition := known.Lookup(marker, t.of)
		if definition == nil {
			continue
		}
		if slices.Contains(t.at, at) {
			return "", ""
		}
		name = definition.Name
		right = append(right, t.name)
	}
	if at == atEnd && name != "" {
		return name, "on a line of its own, above the field"
	}
	return name, strings.Join(right, " or ")
}
