package jsonpatch

import "errors"

// ErrBadPatch is the error of Merge for a patch that is neither an object nor a list.
//
//lint:ignore ST1005 the words of the library that Kubernetes uses
var ErrBadPatch = errors.New("Invalid JSON Patch")

// Merge returns the object with a JSON merge patch (RFC 7386) applied. As in the library, a patch
// that is a list replaces the object, and a value that replaces an object keeps its nulls.
func Merge(doc, patch []byte) ([]byte, error) {
	d, err := newText(doc)
	if err != nil {
		return nil, err
	}
	into, ok := d.root().open().(object)
	if !ok || into == nil {
		//lint:ignore ST1005 the words of the library that Kubernetes uses
		return nil, errors.New("Invalid JSON Document")
	}
	p, err := newText(patch)
	if err != nil {
		return nil, ErrBadPatch
	}
	root := p.root()
	switch from := root.open().(type) {
	case object:
		if from == nil {
			return nil, ErrBadPatch
		}
		merge(into, from)
		root = &node{inside: into}
	case *list:
		root.prune()
	default:
		return nil, ErrBadPatch
	}
	return root.appendTo(nil, 0)
}

func merge(into, from object) {
	for key, n := range from {
		switch cur := into[key]; {
		case n == nil:
			delete(into, key)
		case cur == nil:
			n.prune()
			into[key] = n
		default:
			into[key] = cur.merged(n)
		}
	}
}

func (n *node) merged(patch *node) *node {
	into, ok := n.open().(object)
	if !ok {
		patch.prune()
		return patch
	}
	from, ok := patch.open().(object)
	if !ok {
		return patch
	}
	merge(into, from)
	return n
}

// prune removes the members of objects that are null.
func (n *node) prune() {
	switch inside := n.open().(type) {
	case object:
		for key, member := range inside {
			if member == nil {
				delete(inside, key)
			} else {
				member.prune()
			}
		}
	case *list:
		for _, block := range inside.blocks {
			for _, item := range block {
				if item != nil {
					item.prune()
				}
			}
		}
	}
}
