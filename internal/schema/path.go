package schema

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// path is the way from the root to the value at hand, as a chain of steps on the callers' stacks; nil is the root. It costs
// nothing until somebody asks for its name.
type path struct {
	up    *path
	key   string
	index int
	kind  stepKind
}

type stepKind uint8

const (
	stepField stepKind = iota // a declared property
	stepKey                   // an additional property
	stepIndex                 // an item of a list
)

// dotted spells the path as warnings about unknown fields do: spec.list[0].bar.
func (p *path) dotted() string { return string(p.append(nil, false)) }

// name spells the path as schema validation does: like dotted, but an additional property of the root starts with a dot.
func (p *path) name() string { return string(p.append(nil, true)) }

// childName is the name of a property of the value at p that need not exist, as schema validation spells it.
func (p *path) childName(key string) string { return p.name() + "." + key }

func (p *path) append(b []byte, dotKeys bool) []byte {
	if p == nil {
		return b
	}
	b = p.up.append(b, dotKeys)
	if p.kind == stepIndex {
		b = append(b, '[')
		b = strconv.AppendInt(b, int64(p.index), 10)
		return append(b, ']')
	}
	if len(b) > 0 || dotKeys && p.kind == stepKey {
		b = append(b, '.')
	}
	return append(b, p.key...)
}

// field spells the path as checks of list types and of embedded resources do: spec.map[key].list[0]. It copies the keys, so
// that steps may stay on the stack.
func (p *path) field() *field.Path {
	if p == nil {
		return nil
	}
	switch up := p.up.field(); p.kind {
	case stepIndex:
		return up.Index(p.index)
	case stepKey:
		return up.Key(strings.Clone(p.key))
	default:
		return up.Child(strings.Clone(p.key))
	}
}
