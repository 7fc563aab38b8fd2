package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/yaml"
)

// A locator finds the Go fields of paths in definitions.
type locator struct {
	*generate.Definitions
	parser      *crd.Parser
	definitions map[string]*apiextensionsv1.CustomResourceDefinition
}

func newLocator(d *generate.Definitions) *locator {
	l := &locator{Definitions: d, definitions: map[string]*apiextensionsv1.CustomResourceDefinition{}}
	l.parser = &crd.Parser{Collector: d.Context.Collector, Checker: d.Context.Checker}
	crd.AddKnownTypes(l.parser)
	for _, root := range d.Context.Roots {
		l.parser.NeedPackage(root)
	}
	for _, document := range documentEnd.Split(string(d.YAML), -1) {
		c := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(document), c); err == nil && c.Kind == "CustomResourceDefinition" {
			l.definitions[c.Name] = c
		}
	}
	return l
}

// documentEnd is the line between two documents. Descriptions may have such a line, too, but
// further right.
var documentEnd = regexp.MustCompile(`(?m)^---\n`)

// Parts of paths in definitions.
var (
	versionPart = regexp.MustCompile(`^spec\.versions\[(\d+)\]\.`)
	schemaPart  = regexp.MustCompile(`properties\[([^\]]*)\]|\bitems\b|\badditionalProperties\b`)
	markerPart  = regexp.MustCompile(`(additionalPrinterColumns|selectableFields|subresources\.scale|subresources\.status|names)(?:\[(\d+)\])?`)
	lastPart    = regexp.MustCompile(`\.([A-Za-z0-9-]+)(?:\[(\d+)\])?(?:\.(?:rule|message|messageExpression|fieldPath))?$`)
)

// field returns the position of the Go field, or of the marker, that a path in a definition is
// from. The path "" stands for the definition. It returns token.NoPos for what is not from the
// packages that are checked.
func (l *locator) field(name, path string) token.Pos {
	definition := l.definitions[name]
	if definition == nil {
		return token.NoPos
	}
	version := 0
	if match := versionPart.FindStringSubmatch(path); match != nil {
		version, _ = strconv.Atoi(match[1]) // digits
	}
	if version >= len(definition.Spec.Versions) {
		return token.NoPos
	}
	of := schema.GroupVersion{Group: definition.Spec.Group, Version: definition.Spec.Versions[version].Name}
	for _, pkg := range l.Context.Roots {
		if l.parser.GroupVersions[pkg] != of {
			continue
		}
		info := l.parser.LookupType(pkg, definition.Spec.Names.Kind)
		if info == nil {
			continue
		}
		_, schemaPath, inSchema := strings.Cut(path, "openAPIV3Schema")
		if !inSchema {
			return l.typeMarker(info, path)
		}
		return l.walk(pkg, info, schemaPath)
	}
	return token.NoPos
}

// typeMarkers are the markers of a type that parts of a definition outside of its schema are from.
var typeMarkers = map[string]string{
	"additionalPrinterColumns": "+kubebuilder:printcolumn:",
	"selectableFields":         "+kubebuilder:selectablefield:",
	"subresources.scale":       "+kubebuilder:subresource:scale",
	"subresources.status":      "+kubebuilder:subresource:status",
	"names":                    "+kubebuilder:resource",
}

// typeMarker returns the position of the marker of a type that a path outside of a schema is from,
// or that of the type.
func (l *locator) typeMarker(info *markers.TypeInfo, path string) token.Pos {
	match := markerPart.FindStringSubmatch(path)
	if match == nil {
		return info.RawSpec.Pos()
	}
	n, _ := strconv.Atoi(match[2]) // digits, or none
	for _, group := range l.commentsOf(info) {
		for _, comment := range group.List {
			if !strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(comment.Text, "//")), typeMarkers[match[1]]) {
				continue
			}
			if n == 0 {
				return comment.Pos()
			}
			n--
		}
	}
	return info.RawSpec.Pos()
}

// commentsOf returns the comments of a type, with the one above after an empty line, in the order
// of the source.
func (l *locator) commentsOf(info *markers.TypeInfo) []*ast.CommentGroup {
	begin := info.RawDecl.Pos()
	if info.RawDecl.Doc != nil {
		begin = info.RawDecl.Doc.Pos()
	}
	var groups []*ast.CommentGroup
	for _, group := range info.RawFile.Comments {
		if d := l.Files.Position(begin).Line - l.Files.Position(group.End()).Line; group.End() < begin && d <= 2 || group == info.RawDecl.Doc || group == info.RawSpec.Doc {
			groups = append(groups, group)
		}
	}
	return groups
}

// walk follows a path from a type, as far as it leads through the packages that are checked.
func (l *locator) walk(pkg *loader.Package, info *markers.TypeInfo, path string) token.Pos {
	at := info.RawSpec.Pos()
	comments := []*ast.CommentGroup{info.RawDecl.Doc, info.RawSpec.Doc}
	var expression ast.Expr
	for _, step := range schemaPart.FindAllStringSubmatch(path, -1) {
		if expression != nil {
			expression, pkg, info = l.resolve(expression, pkg)
		}
		switch {
		case pkg == nil:
			return at
		case step[0] == "items":
			list, ok := expression.(*ast.ArrayType)
			if !ok {
				return at
			}
			expression = list.Elt
		case step[0] == "additionalProperties":
			values, ok := expression.(*ast.MapType)
			if !ok {
				return at
			}
			expression = values.Value
		default:
			if info == nil {
				return at
			}
			field, owner := l.fieldOf(pkg, info, step[1])
			if field == nil {
				return at
			}
			pkg, at, expression = owner, field.RawField.Pos(), field.RawField.Type
			comments = []*ast.CommentGroup{field.RawField.Doc}
		}
	}
	if expression != nil { // markers of the type of the field
		if _, _, typ := l.resolve(expression, pkg); typ != nil {
			comments = append(comments, typ.RawDecl.Doc, typ.RawSpec.Doc)
		}
	}
	if marker := markerOf(comments, path); marker.IsValid() {
		return marker
	}
	return at
}

// resolve returns what a type expression stands for: without pointers, and for a name its
// declaration in a package that is checked. The package is nil if it is another one.
func (l *locator) resolve(expression ast.Expr, pkg *loader.Package) (ast.Expr, *loader.Package, *markers.TypeInfo) {
	for {
		switch of := expression.(type) {
		case *ast.StarExpr:
			expression = of.X
		case *ast.Ident:
			info := l.parser.LookupType(pkg, of.Name)
			if info == nil {
				return expression, pkg, nil // string and the like
			}
			if _, isStruct := info.RawSpec.Type.(*ast.StructType); isStruct {
				return info.RawSpec.Type, pkg, info
			}
			expression = info.RawSpec.Type
		case *ast.SelectorExpr:
			pkg.NeedTypesInfo()
			object, ok := pkg.TypesInfo.Uses[of.Sel].(*types.TypeName)
			if !ok || object.Pkg() == nil {
				return expression, nil, nil
			}
			at := slices.IndexFunc(l.Context.Roots, func(p *loader.Package) bool { return p.PkgPath == object.Pkg().Path() })
			if at < 0 {
				return expression, nil, nil
			}
			expression, pkg = of.Sel, l.Context.Roots[at]
		default:
			return expression, pkg, nil
		}
	}
}

// fieldOf returns the field of a struct, or of those that are inlined in it, with a name in JSON,
// and its package.
func (l *locator) fieldOf(pkg *loader.Package, info *markers.TypeInfo, name string) (*markers.FieldInfo, *loader.Package) {
	for i := range info.Fields {
		field := &info.Fields[i]
		tag, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case tag == name:
			return field, pkg
		case tag == "" && (field.Name == "" || strings.Contains(options, "inline")):
			_, owner, inlined := l.resolve(field.RawField.Type, pkg)
			if owner == nil || inlined == nil {
				continue
			}
			if found, owner := l.fieldOf(owner, inlined, name); found != nil {
				return found, owner
			}
		}
	}
	return nil, nil
}

// markerOf returns the position of the marker that the end of a path is from, if it is in the
// comments. Of several with one value, the last one counts.
func markerOf(comments []*ast.CommentGroup, path string) token.Pos {
	last := lastPart.FindStringSubmatch(path)
	if last == nil {
		return token.NoPos
	}
	wanted := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(last[1], "x-kubernetes-"), "-", ""))
	n, found := -1, token.NoPos
	switch {
	case wanted == "validations":
		wanted = "xvalidation"
		n, _ = strconv.Atoi(last[2]) // digits, or none
	case strings.HasPrefix(wanted, "list"):
		wanted, n = "list", 0
	}
	for _, group := range comments {
		if group == nil {
			continue
		}
		for _, comment := range group.List {
			marker, isMarker := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(comment.Text, "//")), "+")
			name, _, _ := strings.Cut(marker, "=")
			if !isMarker || !strings.Contains(strings.ToLower(name), wanted) {
				continue
			}
			if n == 0 {
				return comment.Pos()
			}
			if n < 0 && (!found.IsValid() || strings.EqualFold(name[strings.LastIndexByte(name, ':')+1:], wanted)) { // not ExclusiveMinimum after Minimum
				found = comment.Pos()
			}
			n--
		}
		if found.IsValid() {
			return found
		}
	}
	return token.NoPos
}
