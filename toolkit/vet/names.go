package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"

	"sigs.k8s.io/controller-tools/pkg/loader"
)

// repeatedNames returns a problem for each field of a struct that has the JSON name of another one
// at the same depth: package encoding/json leaves out both.
func repeatedNames(d *generate.Definitions) []generate.Problem {
	var problems []generate.Problem
	for _, root := range d.Context.Roots {
		root.NeedTypesInfo()
		for _, file := range root.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if of, ok := structOf(root, spec); ok && !spec.Assign.IsValid() { // an alias repeats its type
					problems = append(problems, repeatedIn(d, of, spec)...)
				}
				return true
			})
		}
	}
	return problems
}

func structOf(pkg *loader.Package, spec *ast.TypeSpec) (*types.Struct, bool) {
	if pkg.TypesInfo == nil || pkg.TypesInfo.Defs[spec.Name] == nil {
		return nil, false
	}
	of, ok := pkg.TypesInfo.Defs[spec.Name].Type().Underlying().(*types.Struct)
	return of, ok
}

func repeatedIn(d *generate.Definitions, of *types.Struct, spec *ast.TypeSpec) []generate.Problem {
	var problems []generate.Problem
	hidden := map[string]bool{} // names at a smaller depth
	seen := map[*types.Struct]bool{of: true}
	times := map[*types.Struct]int{} // how often the structs of a level are embedded
	for level := []*types.Struct{of}; len(level) > 0; {
		first := map[string]string{} // fields by their JSON names
		var next []*types.Struct
		nextTimes := map[*types.Struct]int{}
		for _, s := range level {
			for i := range s.NumFields() {
				field := s.Field(i)
				name, _, _ := strings.Cut(reflect.StructTag(s.Tag(i)).Get("json"), ",")
				switch inlined := embedded(field); {
				case name == "-" || !field.Exported() && inlined == nil:
				case name == "" && inlined != nil && !seen[inlined]:
					if nextTimes[inlined]++; nextTimes[inlined] == 1 {
						next = append(next, inlined)
					}
				case name == "" || hidden[name]:
				case first[name] != "":
					problems = append(problems, generate.Problem{
						At: d.Position(within(spec, field.Pos())),
						Message: fmt.Sprintf("field %s has the JSON name %q of field %s: both are left out of JSON",
							fieldName(s, of, field), name, first[name]),
					})
				case times[s] > 1:
					first[name] = fieldName(s, of, field)
					problems = append(problems, generate.Problem{
						At:      d.Position(within(spec, field.Pos())),
						Message: fmt.Sprintf("field %s is left out of JSON: its struct is embedded %d times at the same depth", first[name], times[s]),
					})
				default:
					first[name] = fieldName(s, of, field)
				}
			}
		}
		for name := range first {
			hidden[name] = true
		}
		for _, s := range next {
			seen[s] = true
		}
		level, times = next, nextTimes
	}
	return problems
}

// fieldName returns the name of a field of a struct, with that of the struct if it is one that
// another one embeds.
func fieldName(s, of *types.Struct, field *types.Var) string {
	if s == of || field.Pkg() == nil {
		return field.Name()
	}
	for _, name := range field.Pkg().Scope().Names() {
		if o := field.Pkg().Scope().Lookup(name); o.Type().Underlying() == s {
			return name + "." + field.Name()
		}
	}
	return field.Name()
}

// embedded returns the struct of an embedded field, nil if it is another field.
func embedded(field *types.Var) *types.Struct {
	if !field.Embedded() {
		return nil
	}
	of := field.Type().Underlying()
	if pointer, ok := of.(*types.Pointer); ok {
		of = pointer.Elem().Underlying()
	}
	s, _ := of.(*types.Struct)
	return s
}

// within returns a position in the declaration of a type, that of its name for a field of another
// type.
func within(spec *ast.TypeSpec, at token.Pos) token.Pos {
	if at < spec.Pos() || at >= spec.End() {
		return spec.Pos()
	}
	return at
}
