package generate

import (
	"context"
	"errors"
	"go/ast"
	"go/token"
	"reflect"
	"slices"
	"unsafe"

	"github.com/kapok-dev/kapok/toolkit/internal/sources"

	"golang.org/x/tools/go/packages"
	"k8s.io/gengo/v2/parser"
)

// loadInto loads packages by their import paths into a parser of gengo, in place of its method
// LoadPackages, which type-checks all packages with all bodies of functions. It returns false if
// that is left to the parser, which is slow.
//
// The parser has no such entrance: its fields are set by reflection. If another version of gengo
// has other fields, the parser loads the packages, and a test fails.
func loadInto(ctx context.Context, l goList, p *parser.Parser, found []tagged, inputs []string) (bool, error) {
	fields, ok := fieldsOf(reflect.ValueOf(p).Elem())
	if !ok {
		return false, nil
	}
	var roots []*packages.Package
	var patterns []string
	whole := slices.Clone(inputs)
	for _, t := range found {
		roots = append(roots, t.listed)
		patterns = append(patterns, t.path)
		whole = append(whole, t.mentions...)
	}
	listed := byPath(roots)
	missing := slices.DeleteFunc(slices.Clone(inputs), func(path string) bool { return listed[path] != nil })
	if len(missing) > 0 {
		again, err := l.list(ctx, "", append(patterns, missing...))
		if err != nil {
			return false, err
		}
		listed = byPath(again)
	}
	var load []*packages.Package
	for _, path := range unrepeated(whole) {
		if p := listed[path]; p != nil { // others are found and loaded by the generator that needs them
			load = append(load, p)
		} else if slices.Contains(inputs, path) {
			return false, nil
		}
	}
	files, err := sources.Load(*fields.files, load)
	if errors.Is(err, sources.ErrCgo) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var failed []error
	packages.Visit(load, nil, func(p *packages.Package) {
		for _, err := range p.Errors {
			if err.Kind == packages.ListError || err.Kind == packages.ParseError {
				failed = append(failed, problemOf(err))
			}
		}
	})
	if len(failed) > 0 {
		return false, errors.Join(unique(failed)...)
	}
	for _, p := range load {
		(*fields.packages)[p.PkgPath] = p
	}
	for _, path := range inputs {
		(*fields.requested)[path] = true
	}
	for _, file := range files {
		for _, comment := range file.Comments {
			fields.addComment(comment)
		}
	}
	return true, nil
}

// byPath returns packages and all that they import by their import paths.
func byPath(roots []*packages.Package) map[string]*packages.Package {
	all := map[string]*packages.Package{}
	packages.Visit(roots, nil, func(p *packages.Package) { all[p.PkgPath] = p })
	return all
}

// parserFields are the fields of a parser.Parser that a load sets.
type parserFields struct {
	files     **token.FileSet
	packages  *map[string]*packages.Package
	requested *map[string]bool
	comments  reflect.Value // a map of comments by the file and line of their ends
}

// fieldsOf returns the fields of a parser, a variable, and false if they are not as expected.
func fieldsOf(of reflect.Value) (fields parserFields, ok bool) {
	if fields.files, ok = field[*token.FileSet](of, "fset"); !ok {
		return fields, false
	}
	if fields.packages, ok = field[map[string]*packages.Package](of, "goPkgs"); !ok {
		return fields, false
	}
	if fields.requested, ok = field[map[string]bool](of, "userRequested"); !ok {
		return fields, false
	}
	comments := of.FieldByName("endLineToCommentGroup")
	if !comments.IsValid() || comments.Kind() != reflect.Map || comments.Type().Elem() != reflect.TypeFor[*ast.CommentGroup]() {
		return fields, false
	}
	key := reflect.New(comments.Type().Key()).Elem()
	if key.Kind() != reflect.Struct || key.NumField() != 2 {
		return fields, false
	}
	if _, ok := field[string](key, "file"); !ok {
		return fields, false
	}
	if _, ok := field[int](key, "line"); !ok {
		return fields, false
	}
	fields.comments = settable(comments)
	return fields, true
}

// field returns the field of a struct by its name, false if it has no such field of this type.
func field[T any](of reflect.Value, name string) (*T, bool) {
	f := of.FieldByName(name)
	if !f.IsValid() || f.Type() != reflect.TypeFor[T]() {
		return nil, false
	}
	return (*T)(unsafe.Pointer(f.UnsafeAddr())), true
}

// settable returns a field, which need not be exported, as one that can be set.
func settable(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
}

// addComment adds a comment under its last line.
func (f parserFields) addComment(comment *ast.CommentGroup) {
	end := (*f.files).Position(comment.End())
	key := reflect.New(f.comments.Type().Key()).Elem()
	file, _ := field[string](key, "file")
	line, _ := field[int](key, "line")
	*file, *line = end.Filename, end.Line
	f.comments.SetMapIndex(key, reflect.ValueOf(comment))
}
