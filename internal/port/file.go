package port

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Finding is a use that has no equivalent in the framework, or that needs review.
type Finding struct {
	Position token.Position
	What     string
	Advice   string
	Note     bool // the file compiles, but behaves differently
}

// String returns the finding as FILE:LINE: NAME: TEXT.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.Position.Filename, f.Position.Line, f.What, f.Advice)
}

// File returns the rewritten source of a file, and the findings in it. It returns an error if the
// source does not parse.
func File(name string, src []byte) (moved []byte, findings []Finding, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	m := mover{fset: fset, file: f, imported: map[string]imported{}}
	for _, spec := range f.Imports {
		m.move(spec)
	}
	m.names()
	m.fields()
	m.queues()
	m.zap()
	m.handlers()
	m.flags()
	slices.SortStableFunc(m.findings, func(a, b Finding) int { return a.Position.Offset - b.Position.Offset })
	if len(m.edits) == 0 {
		return src, m.findings, nil
	}
	moved = m.apply(src)
	if formatted, err := format.Source(src); err == nil && bytes.Equal(formatted, src) {
		if moved, err = sortImports(moved); err == nil {
			moved, err = format.Source(moved)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return moved, m.findings, nil
}

const (
	clientQueues = "k8s.io/client-go/util/workqueue" // the queues of controller-runtime's handlers
	queues       = To + "/workqueue"                 // the queues of the framework's handlers
	handlerQueue = "TypedRateLimitingInterface"      // the type, in both
)

// A mover rewrites one file.
type mover struct {
	fset     *token.FileSet
	file     *ast.File
	imported map[string]imported // by the name in the file
	edits    []edit
	findings []Finding
}

// imported is a package of controller-runtime that a file imports, and the package that replaces
// it.
type imported struct {
	from string // import path without the module
	to   target
}

// An edit replaces a range of bytes of a file.
type edit struct {
	from, to int
	text     string
}

// move replaces an import.
func (m *mover) move(spec *ast.ImportSpec) {
	whole, err := strconv.Unquote(spec.Path.Value)
	if err != nil || whole != From && !strings.HasPrefix(whole, From+"/") {
		return
	}
	from := strings.TrimPrefix(strings.TrimPrefix(whole, From), "/")
	to, ok := packages[from]
	if !ok {
		hint := advice[from]
		if hint == "" {
			hint = noPackage
		}
		_, isNote := advice[from]
		m.find(spec.Pos(), whole, hint, isNote)
		return
	}
	t := targets()[to]
	name := path.Base(from)
	if from == "" {
		name = "controllerruntime"
	}
	text := strconv.Quote(To + "/" + to)
	if spec.Name != nil {
		name = spec.Name.Name
	} else if name != t.name {
		text = name + " " + text
	}
	m.edit(spec.Path.Pos(), spec.Path.End(), text)
	switch name {
	case "_":
	case ".":
		m.find(spec.Pos(), whole, "its names are not checked, because it is imported as \".\"", true)
	default:
		m.imported[name] = imported{from, t}
	}
}

// names renames or reports all names of controller-runtime that the file uses.
func (m *mover) names() {
	ast.Inspect(m.file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := selector.X.(*ast.Ident)
		if !ok || x.Obj != nil { // a variable
			return true
		}
		pkg, ok := m.imported[x.Name]
		if !ok {
			return true
		}
		full := pkg.from + "." + selector.Sel.Name
		if name, ok := renamed[full]; ok {
			m.edit(selector.Sel.Pos(), selector.Sel.End(), name)
		} else if !pkg.to.exported[selector.Sel.Name] {
			hint := advice[full]
			if hint == "" {
				hint = "the package that replaces it has no such name"
			}
			m.find(selector.Pos(), x.Name+"."+selector.Sel.Name, hint, false)
		} else if hint, ok := changed[full]; ok {
			m.find(selector.Pos(), x.Name+"."+selector.Sel.Name, hint, false)
		}
		return true
	})
}

// fields reports the fields of types of controller-runtime that the file sets and that differ: in
// composite literals, and in option functions.
func (m *mover) fields() {
	ast.Inspect(m.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			for _, element := range n.Elts {
				if pair, ok := element.(*ast.KeyValueExpr); ok {
					if key, ok := pair.Key.(*ast.Ident); ok {
						m.field(n.Type, key)
					}
				}
			}
		case *ast.FuncLit:
			for _, param := range n.Type.Params.List {
				of, ok := param.Type.(*ast.StarExpr)
				if !ok || len(param.Names) != 1 {
					continue
				}
				for _, selector := range selectorsOf(n.Body, param.Names[0]) {
					m.field(of.X, selector.Sel)
				}
			}
		}
		return true
	})
}

// field reports a field of a type if it differs.
func (m *mover) field(of ast.Expr, name *ast.Ident) {
	switch generic := of.(type) {
	case *ast.IndexExpr:
		of = generic.X
	case *ast.IndexListExpr:
		of = generic.X
	}
	selector, ok := of.(*ast.SelectorExpr)
	if !ok {
		return
	}
	x, ok := selector.X.(*ast.Ident)
	if !ok || x.Obj != nil {
		return
	}
	full := selector.Sel.Name + "." + name.Name
	if hint, ok := changedFields[m.imported[x.Name].from+"."+full]; ok {
		m.find(name.Pos(), x.Name+"."+full, hint, false)
	}
}

// selectorsOf returns the selectors on a variable.
func selectorsOf(in ast.Node, variable *ast.Ident) (all []*ast.SelectorExpr) {
	ast.Inspect(in, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := selector.X.(*ast.Ident); ok && x.Obj != nil && x.Obj == variable.Obj {
				all = append(all, selector)
			}
		}
		return true
	})
	return all
}

// queues gives handlers and sources the queues of the framework instead of client-go's. If the file
// uses nothing else of client-go's package, its import is replaced; otherwise a second one is
// added.
func (m *mover) queues() {
	if !m.handles() {
		return
	}
	spec, name := m.importOf(clientQueues)
	if spec == nil {
		return
	}
	var uses []*ast.Ident // uses of the package in the queue types of handlers
	others, makes := false, false
	for _, selector := range selectors(m.file, name) {
		if selector.Sel.Name == handlerQueue {
			uses = append(uses, selector.X.(*ast.Ident))
		} else {
			others = true
			makes = makes || strings.HasPrefix(selector.Sel.Name, "New") && strings.Contains(selector.Sel.Name, "Queue")
		}
	}
	switch {
	case len(uses) == 0:
	case makes:
		m.find(uses[0].Pos(), name+"."+handlerQueue, "handlers and sources take the type of the same name in "+queues+"; create the queue with its function New", false)
	case !others:
		text := strconv.Quote(queues)
		m.edit(spec.Path.Pos(), spec.Path.End(), text)
	default:
		text := "kapokworkqueue " + strconv.Quote(queues)
		if d := m.declares(spec); d != nil && d.Lparen.IsValid() {
			m.edit(spec.End(), spec.End(), "\n\t"+text)
		} else {
			m.edit(spec.End(), spec.End(), "\nimport "+text)
		}
		for _, x := range uses {
			m.edit(x.Pos(), x.End(), "kapokworkqueue")
		}
	}
}

// handles reports whether the file imports a package of handlers or sources.
func (m *mover) handles() bool {
	for _, pkg := range m.imported {
		switch pkg.from {
		case "pkg/handler", "pkg/event", "pkg/source", "pkg/controller/priorityqueue":
			return true
		}
	}
	return false
}

// importOf returns the import of a package outside controller-runtime, and the name of the package
// in the file.
func (m *mover) importOf(of string) (spec *ast.ImportSpec, name string) {
	for _, s := range m.file.Imports {
		if whole, err := strconv.Unquote(s.Path.Value); err == nil && whole == of {
			if s.Name != nil {
				return s, s.Name.Name
			}
			return s, path.Base(of)
		}
	}
	return nil, ""
}

// selectors returns the uses of a package in a part of the file.
func selectors(in ast.Node, name string) (all []*ast.SelectorExpr) {
	ast.Inspect(in, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := selector.X.(*ast.Ident); ok && x.Obj == nil && x.Name == name {
				all = append(all, selector)
			}
		}
		return true
	})
	return all
}

// handlers reports the handlers that the file adds to informers of caches.
func (m *mover) handlers() {
	gets := false
	var adds []*ast.SelectorExpr
	ast.Inspect(m.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch method.Sel.Name {
		case "GetInformer", "GetInformerForKind":
			gets = gets || len(call.Args) >= 2
		case "AddEventHandler", "AddEventHandlerWithResyncPeriod", "AddEventHandlerWithOptions":
			adds = append(adds, method)
		}
		return true
	})
	if !gets || len(m.imported) == 0 {
		return
	}
	for _, method := range adds {
		m.find(method.Sel.Pos(), method.Sel.Name, "call AddEventHandler(cache.HandlerOf(handler), options...): informers take handlers of package cache", false)
	}
}

// zap replaces levels and encoders of go.uber.org/zap in options of loggers by those of the
// framework. If the file uses nothing else of such a package, its import is replaced; otherwise a
// second one is added.
func (m *mover) zap() {
	local := ""
	for name, pkg := range m.imported {
		if pkg.from == "pkg/log/zap" {
			local = name
		}
	}
	if local == "" {
		return
	}
	for whole, names := range zapNames {
		spec, name := m.importOf(whole)
		if spec == nil {
			continue
		}
		uses := selectors(m.file, name)
		if len(uses) == 0 {
			continue
		}
		if !slices.ContainsFunc(uses, func(s *ast.SelectorExpr) bool { return names[s.Sel.Name] == "" }) {
			text := strconv.Quote(To + "/" + packages["pkg/log/zap"])
			if spec.Name == nil && name != "zap" {
				text = name + " " + text
			}
			m.edit(spec.Path.Pos(), spec.Path.End(), text)
			for _, s := range uses {
				if to := names[s.Sel.Name]; to != s.Sel.Name {
					m.edit(s.Sel.Pos(), s.Sel.End(), to)
				}
			}
			continue
		}
		for _, s := range m.given(local, name) {
			if to := names[s.Sel.Name]; to != "" {
				m.edit(s.Pos(), s.End(), local+"."+to)
			} else {
				m.find(s.Pos(), name+"."+s.Sel.Name, zapTypes, false)
			}
		}
	}
}

// given returns the uses of one package in arguments of calls, and in literals of types, of
// another. It leaves out options that the framework does not have, which are findings themselves.
func (m *mover) given(to, of string) (all []*ast.SelectorExpr) {
	pkg := m.imported[to]
	nameOf := func(e ast.Expr) string {
		if s, ok := e.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Obj == nil && x.Name == to {
				return s.Sel.Name
			}
		}
		return ""
	}
	ast.Inspect(m.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := nameOf(n.Fun)
			if !pkg.to.exported[name] {
				return name == ""
			}
			for _, arg := range n.Args {
				if call, ok := arg.(*ast.CallExpr); !ok || nameOf(call.Fun) == "" { // an option within an option is visited by itself
					all = append(all, selectors(arg, of)...)
				}
			}
		case *ast.CompositeLit:
			if name := nameOf(n.Type); name != "" {
				for _, e := range n.Elts {
					pair, ok := e.(*ast.KeyValueExpr)
					if !ok {
						continue
					}
					if key, ok := pair.Key.(*ast.Ident); ok && changedFields[pkg.from+"."+name+"."+key.Name] == "" {
						all = append(all, selectors(pair.Value, of)...)
					}
				}
				return false
			}
		}
		return true
	})
	return all
}

// declares returns the declaration that contains an import.
func (m *mover) declares(spec *ast.ImportSpec) *ast.GenDecl {
	for _, d := range m.file.Decls {
		if d, ok := d.(*ast.GenDecl); ok && d.Pos() <= spec.Pos() && spec.End() <= d.End() {
			return d
		}
	}
	return nil
}

// flags reports that --kubeconfig is no longer registered, if the import of the root package or of
// package config registered it.
func (m *mover) flags() {
	var parse ast.Node
	registers, asks := false, false
	ast.Inspect(m.file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := selector.X.(*ast.Ident)
		if !ok || x.Obj != nil {
			return true
		}
		if x.Name == "flag" && selector.Sel.Name == "Parse" {
			parse = n
		}
		if pkg := m.imported[x.Name].from; pkg == "" && m.imported[x.Name].to.name != "" || pkg == "pkg/client/config" {
			asks = asks || strings.HasPrefix(selector.Sel.Name, "GetConfig")
			registers = registers || selector.Sel.Name == "RegisterFlags"
		}
		return true
	})
	if parse != nil && asks && !registers {
		m.find(parse.Pos(), "flag.Parse", "the flag --kubeconfig is no longer registered by an import: call ctrl.RegisterFlags(nil) before", true)
	}
}

func (m *mover) find(at token.Pos, what, advice string, note bool) {
	m.findings = append(m.findings, Finding{m.fset.Position(at), what, advice, note})
}

func (m *mover) edit(from, to token.Pos, text string) {
	m.edits = append(m.edits, edit{m.fset.Position(from).Offset, m.fset.Position(to).Offset, text})
}

// apply returns the source with all edits.
func (m *mover) apply(src []byte) []byte {
	slices.SortFunc(m.edits, func(a, b edit) int { return a.from - b.from })
	var out bytes.Buffer
	end := 0
	for _, e := range m.edits {
		out.Write(src[end:e.from])
		out.WriteString(e.text)
		end = e.to
	}
	out.Write(src[end:])
	return out.Bytes()
}
