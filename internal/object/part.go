package object

import "strings"

// FieldPaths is a set of paths of keys in objects, as a tree: under each key are the rest of the
// paths through it. A value with nothing under its key is in the set as a whole.
type FieldPaths map[string]FieldPaths

// FieldPathsOf returns the set of paths whose keys are separated by dots.
func FieldPathsOf(dotted ...string) FieldPaths {
	all := FieldPaths{}
	for _, path := range dotted {
		all.add(strings.Split(path, "."))
	}
	return all
}

func (p FieldPaths) add(keys []string) {
	below, has := p[keys[0]]
	switch {
	case len(keys) == 1:
		p[keys[0]] = nil
	case !has:
		below = FieldPaths{}
		p[keys[0]] = below
		below.add(keys[1:])
	case below != nil:
		below.add(keys[1:])
	}
}

// Part decodes the values at some paths into a new tree, as Tree does for the whole object. The
// tree may have more than these values.
func (o *Object) Part(paths FieldPaths) (map[string]any, error) {
	p := picker{scanner: scanner{raw: o.Raw}, picked: make([]byte, 0, 256)}
	if !p.object(paths, 0) { // it is nested too deeply
		return o.Tree()
	}
	return DecodeTree(p.picked)
}

// A picker copies the values at some paths of canonical JSON.
type picker struct {
	scanner
	picked []byte
}

func (p *picker) object(paths FieldPaths, depth int) bool {
	p.picked = append(p.picked, '{')
	first := true
	ok := p.scanner.object(depth, func(key []byte) bool {
		below, has := paths[string(key)]
		if !has {
			return p.value(depth + 1)
		}
		if !first {
			p.picked = append(p.picked, ',')
		}
		first = false
		p.picked = append(p.picked, p.raw[p.member:p.at]...)
		if below != nil && p.peek() == '{' {
			return p.object(below, depth+1)
		}
		start := p.at
		ok := p.value(depth + 1)
		p.picked = append(p.picked, p.raw[start:p.at]...)
		return ok
	})
	p.picked = append(p.picked, '}')
	return ok
}
