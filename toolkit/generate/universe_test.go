package generate

import (
	"go/ast"
	"go/token"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/tools/go/packages"
	"k8s.io/gengo/v2"
	"k8s.io/gengo/v2/parser"
	"k8s.io/gengo/v2/types"
)

// TestUniverse compares the types of packages of Kubernetes, and of what they import, with those
// that gengo loads itself.
func TestUniverse(t *testing.T) {
	inputs := []string{"k8s.io/api/apps/v1", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/runtime"}
	found, err := findTagged(t.Context(), goList{}, inputs)
	if err != nil {
		t.Fatal(err)
	}
	if compared := compareUniverses(t, found, inputs); compared < 2000 {
		t.Errorf("only %d names", compared)
	}
}

// compareUniverses compares the types of packages with those that gengo loads itself, and returns
// their number.
func compareUniverses(t *testing.T, found []tagged, inputs []string) (compared int) {
	fast := parser.NewWithOptions(parser.Options{BuildTags: []string{gengo.StdBuildTag}})
	if loaded, err := loadInto(t.Context(), goList{}, fast, found, inputs); !loaded || err != nil {
		t.Fatalf("the parser of gengo is not filled: error %v", err)
	}
	slow := parser.NewWithOptions(parser.Options{BuildTags: []string{gengo.StdBuildTag}})
	if err := slow.LoadPackages(inputs...); err != nil {
		t.Fatal(err)
	}
	got, err := fast.NewUniverse()
	if err != nil {
		t.Fatal(err)
	}
	want, err := slow.NewUniverse()
	if err != nil {
		t.Fatal(err)
	}
	delete(want, "runtime/cgo") // an import of code that cgo generates, which is not listed
	for path, p := range want {
		q := got[path]
		if q == nil {
			t.Errorf("package %s is missing", path)
			continue
		}
		if p.Name != q.Name || p.Dir != q.Dir || !slices.Equal(p.Comments, q.Comments) || !slices.Equal(p.DocComments, q.DocComments) || len(p.Imports) != len(q.Imports) {
			t.Errorf("package %s differs", path)
		}
		for kind, pair := range map[string][2]map[string]*types.Type{
			"type": {p.Types, q.Types}, "function": {p.Functions, q.Functions}, "variable": {p.Variables, q.Variables}, "constant": {p.Constants, q.Constants},
		} {
			for name, a := range pair[0] {
				compared++
				if b := pair[1][name]; b == nil || !sameType(a, b) {
					t.Errorf("%s %s.%s differs: %+v, want %+v", kind, path, name, b, a)
				}
			}
			if len(pair[0]) != len(pair[1]) {
				t.Errorf("package %s has %d of %ss, want %d", path, len(pair[1]), kind, len(pair[0]))
			}
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d packages, want %d", len(got), len(want))
	}
	return compared
}

// TestFieldsOf checks that a parser with other fields is recognised, so that it loads packages
// itself.
func TestFieldsOf(t *testing.T) {
	type key struct {
		file string
		line int
	}
	type fits struct {
		fset                  *token.FileSet
		goPkgs                map[string]*packages.Package
		userRequested         map[string]bool
		endLineToCommentGroup map[key]*ast.CommentGroup
	}
	if _, ok := fieldsOf(reflect.ValueOf(&fits{}).Elem()); !ok {
		t.Error("the fields of a parser are not recognised")
	}
	for i, other := range []any{
		&struct{}{},
		&struct {
			fits
			fset token.FileSet
		}{},
		&struct {
			fits
			goPkgs map[string]packages.Package
		}{},
		&struct {
			fits
			userRequested []string
		}{},
		&struct {
			fits
			endLineToCommentGroup []*ast.CommentGroup
		}{},
		&struct {
			fits
			endLineToCommentGroup map[string]*ast.CommentGroup
		}{},
		&struct {
			fits
			endLineToCommentGroup map[struct{ line, file int }]*ast.CommentGroup
		}{},
		&struct {
			fits
			endLineToCommentGroup map[struct {
				file string
				line uint
			}]*ast.CommentGroup
		}{},
	} {
		if _, ok := fieldsOf(reflect.ValueOf(other).Elem()); ok {
			t.Errorf("parser %d with other fields is not recognised", i)
		}
	}
}

// sameType compares two types, and what they refer to by name.
func sameType(a, b *types.Type) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Name != b.Name || a.Kind != b.Kind || a.Len != b.Len || !slices.Equal(a.CommentLines, b.CommentLines) ||
		!slices.Equal(a.SecondClosestCommentLines, b.SecondClosestCommentLines) || len(a.Members) != len(b.Members) || len(a.Methods) != len(b.Methods) {
		return false
	}
	if (a.ConstValue == nil) != (b.ConstValue == nil) || a.ConstValue != nil && *a.ConstValue != *b.ConstValue {
		return false
	}
	for i, m := range a.Members {
		n := b.Members[i]
		if m.Name != n.Name || m.Embedded != n.Embedded || m.Tags != n.Tags || m.Type.Name != n.Type.Name || !slices.Equal(m.CommentLines, n.CommentLines) {
			return false
		}
	}
	for name, m := range a.Methods {
		if n := b.Methods[name]; n == nil || m.Name != n.Name || !slices.Equal(m.CommentLines, n.CommentLines) {
			return false
		}
	}
	same := func(a, b *types.Type) bool { return (a == nil) == (b == nil) && (a == nil || a.Name == b.Name) }
	return same(a.Elem, b.Elem) && same(a.Key, b.Key) && same(a.Underlying, b.Underlying)
}
