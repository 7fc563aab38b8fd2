package sources

import (
	"go/ast"
	"go/token"
	"slices"
)

// reach follows the references of a declaration in a file.
type reach struct {
	*loader
	unit *unit
	file int
}

// decl follows the references of a declaration that its type depends on. It removes the values of
// variables that have a type or no name.
func (r reach) decl(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			ast.Walk(r, d.Recv)
		}
		ast.Walk(r, d.Type)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.TypeParams != nil {
					ast.Walk(r, s.TypeParams)
				}
				ast.Walk(r, s.Type)
			case *ast.ValueSpec:
				if s.Type != nil {
					ast.Walk(r, s.Type)
				}
				// The values of constants may be repeated by those that follow.
				if d.Tok == token.VAR && (s.Type != nil || isBlank(s)) {
					s.Values = nil
				}
				for _, value := range s.Values {
					ast.Walk(r, value)
				}
			}
		}
	}
}

// Visit implements ast.Visitor.
func (r reach) Visit(node ast.Node) ast.Visitor {
	switch n := node.(type) {
	case *ast.Field: // its names are no references
		if n.Type != nil {
			ast.Walk(r, n.Type)
		}
		return nil
	case *ast.InterfaceType:
		if !r.shapes {
			return r
		}
		for _, method := range n.Methods.List {
			if len(method.Names) == 0 || isShapeMethod(method.Names[0].Name) {
				ast.Walk(r, method.Type)
			}
		}
		return nil
	case *ast.FuncLit:
		ast.Walk(r, n.Type)
		return nil
	case *ast.CompositeLit: // its type does not depend on its elements, unless these are counted
		if array, ok := n.Type.(*ast.ArrayType); n.Type != nil && !(ok && isEllipsis(array.Len)) {
			n.Elts = nil
			ast.Walk(r, n.Type)
			return nil
		}
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok {
			if path, ok := r.unit.imports[r.file][x.Name]; ok {
				r.external(path, n.Sel.Name)
				return nil
			}
		}
		ast.Walk(r, n.X)
		return nil
	case *ast.Ident:
		r.need(r.unit.of, n.Name)
		return nil
	}
	return r
}

// isBlank reports whether variables have no names.
func isBlank(s *ast.ValueSpec) bool {
	return !slices.ContainsFunc(s.Names, func(name *ast.Ident) bool { return name.Name != "_" })
}

func isEllipsis(expr ast.Expr) bool {
	_, ok := expr.(*ast.Ellipsis)
	return ok
}

// external needs a name of an imported package.
func (r reach) external(path, name string) {
	if path == "C" {
		r.cgo = true
		return
	}
	if path != "unsafe" {
		r.need(r.unit.of.Imports[path], name)
	}
}
