package schema

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// path is the path from the root to the current value, as a chain of steps on the callers' stacks;
// nil is the root. It allocates only when it is formatted.
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

// dotted formats the path as in warnings about unknown fields: spec.list[0].bar.
func (p *path) dotted() string { return string(p.append(nil, false)) }

// name formats the path as in schema validation: like dotted, but an additional property of the
// root starts with a dot.
func (p *path) name() string { return string(p.append(nil, true)) }

// childName returns the name of a property of the value at p, which need not exist, as in schema
// validation.
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

// field formats the path as in checks of list types and of embedded resources:
// spec.map[key].list[0]. It copies the keys, so that steps may stay on the stack.
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
