package jsonpatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// A node is a value of the document. It refers to a part of a text until an operation opens it. A
// nil node is a null of the document; a node with neither text nor inside is a null that an
// operation has set.
type node struct {
	text     *text
	from, to int
	inside   container // operations may have changed it, so text is no longer valid
}

// A container is an object or a list. Keys of a list are indices; negative ones count from the end,
// and "-" is the end for add.
type container interface {
	get(key string) (*node, error) // nil without an error where an object has no such key
	set(key string, n *node) error // of a key that get has found, or of any key of an object
	add(key string, n *node) error // inserts into a list
	remove(key string) error
}

// open returns the container that operations may change, or nil if the node is neither an object
// nor a list.
func (n *node) open() container {
	if n.inside == nil && n.text != nil {
		n.inside = n.text.open(n.from)
	}
	return n.inside
}

func (n *node) isNull() bool { return n == nil || n.text == nil && n.inside == nil }

// bytes returns the text of a node that is not open, or nil for a null that an operation has set.
func (n *node) bytes() []byte {
	if n.text == nil {
		return nil
	}
	return n.text.data[n.from:n.to]
}

// equal compares the node with the value of an operation, in time linear in the length of that
// value.
func (n *node) equal(o *node) bool {
	switch inside := n.open().(type) {
	case object:
		other, ok := o.open().(object)
		if !ok || len(inside) != len(other) {
			return false
		}
		for key, member := range inside {
			want, ok := other[key]
			if !ok || (member == nil) != (want == nil) || member != nil && !member.equal(want) {
				return false
			}
		}
		return true
	case *list:
		other, ok := o.open().(*list)
		if !ok || inside.length != other.length {
			return false
		}
		block, offset := 0, 0 // in other, whose block boundaries may differ
		for _, items := range inside.blocks {
			for _, item := range items {
				want := other.blocks[block][offset]
				if offset++; offset == len(other.blocks[block]) {
					block, offset = block+1, 0
				}
				if item.isNull() || want.isNull() {
					if !item.isNull() || !want.isNull() {
						return false
					}
				} else if !item.equal(want) {
					return false
				}
			}
		}
		return true
	default:
		return o.inside == nil && bytes.Equal(n.bytes(), o.bytes())
	}
}

// maxDepth is the maximum depth of objects and lists, the same limit as in encoding/json.
const maxDepth = 10000

var errDepth = errors.New("exceeded max depth")

// appendTo appends the JSON of the node in the format of encoding/json: compact, with <, > and &
// escaped. depth is the number of objects and lists around the node.
func (n *node) appendTo(dst []byte, depth int) ([]byte, error) {
	if n.isNull() {
		return append(dst, "null"...), nil
	}
	var err error
	switch inside := n.inside.(type) {
	case object:
		if inside == nil {
			return append(dst, "null"...), nil
		}
		if depth == maxDepth {
			return nil, errDepth
		}
		dst = append(dst, '{')
		for i, key := range slices.Sorted(maps.Keys(inside)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			encoded, err := json.Marshal(key)
			if err != nil {
				return nil, err
			}
			dst = append(append(dst, encoded...), ':')
			if dst, err = inside[key].appendTo(dst, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case *list:
		if depth == maxDepth {
			return nil, errDepth
		}
		dst = append(dst, '[')
		first := true
		for _, block := range inside.blocks {
			for _, item := range block {
				if !first {
					dst = append(dst, ',')
				}
				first = false
				if dst, err = item.appendTo(dst, depth+1); err != nil {
					return nil, err
				}
			}
		}
		return append(dst, ']'), nil
	}
	return appendCompact(dst, n.bytes(), depth)
}

// An object is nil if it is a copy of a null.
type object map[string]*node

func (o object) get(key string) (*node, error) { return o[key], nil }

func (o object) set(key string, n *node) error {
	if o == nil {
		//lint:ignore ST1005 the words of the library that Kubernetes uses
		return fmt.Errorf("Unable to add key to null: %s: %w", key, errMissing)
	}
	o[key] = n
	return nil
}

func (o object) add(key string, n *node) error { return o.set(key, n) }

func (o object) remove(key string) error {
	if _, ok := o[key]; !ok {
		//lint:ignore ST1005 the words of the library that Kubernetes uses
		return fmt.Errorf("Unable to remove nonexistent key: %s: %w", key, errMissing)
	}
	delete(o, key)
	return nil
}

var errIndex = errors.New("invalid index referenced")

func (l *list) get(key string) (*node, error) {
	i, err := l.index(key)
	if err != nil {
		return nil, err
	}
	return l.at(i), nil
}

func (l *list) set(key string, n *node) error {
	i, err := l.index(key)
	if err != nil {
		return err
	}
	l.put(i, n)
	return nil
}

func (l *list) add(key string, n *node) error {
	if key == "-" {
		l.insert(l.length, n)
		return nil
	}
	i, err := strconv.Atoi(key)
	if err != nil {
		return fmt.Errorf("value was not a proper array index: '%s': %w", key, err)
	}
	if i, err = within(i, l.length+1); err != nil {
		return err
	}
	l.insert(i, n)
	return nil
}

func (l *list) remove(key string) error {
	i, err := l.index(key)
	if err != nil {
		return err
	}
	l.delete(i)
	return nil
}

// index returns the index of the list item that key refers to.
func (l *list) index(key string) (int, error) {
	i, err := strconv.Atoi(key)
	if err != nil {
		return 0, err
	}
	return within(i, l.length)
}

func within(i, length int) (int, error) {
	if i >= length || i < -length {
		//lint:ignore ST1005 the words of the library that Kubernetes uses
		return 0, fmt.Errorf("Unable to access invalid index: %d: %w", i, errIndex)
	}
	if i < 0 {
		i += length
	}
	return i, nil
}
