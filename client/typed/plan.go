package typed

import (
	"math/bits"
	"unsafe"
)

// A plan lists the fields of a struct, those of embedded structs included.
type plan struct {
	fields []field           // those that are encoded, in the order of encoding
	names  map[string]*field // those that are decoded
	// notJSON reports whether there are fields that package json decodes in another way than
	// apimachinery's converter.
	notJSON bool
}

// maxFields is the number of fields that a plan for JSON supports.
const maxFields = 128

// A field is a field of a struct.
type field struct {
	name   string
	offset uintptr
	codec  *codec
	// text reports whether the field is a string. Most fields are, and read and tree do not call the
	// codec for them.
	text bool
	// omit selects the test for the values that omitempty omits.
	omit emptiness
	// zero reports whether omitzero omits the value; nil without omitzero.
	zero func(p unsafe.Pointer) bool
	// next is another field with the same name, which gets the same value.
	next   *field
	number uint8 // in the plan
}

// An emptiness tells which values of a field count as empty.
type emptiness uint8

const (
	neverEmpty   emptiness = iota
	emptyString            // ""
	emptySlice             // no elements
	emptyMap               // no entries
	emptyPointer           // a nil pointer or interface
	empty8                 // zero, in 8, 16, 32 or 64 bits
	empty16
	empty32
	empty64
	emptyFloat32 // 0 or -0
	emptyFloat64
)

// of reports whether the value at p is empty.
func (e emptiness) of(p unsafe.Pointer) bool {
	switch e {
	case emptyString:
		return len(*(*string)(p)) == 0
	case emptySlice:
		return len(*(*[]struct{})(p)) == 0
	case emptyMap:
		return len(*(*map[string]struct{})(p)) == 0 // the length has the same place in all maps
	case emptyPointer: // the first word of an interface is its type
		return *(*unsafe.Pointer)(p) == nil
	case empty8:
		return *(*uint8)(p) == 0
	case empty16:
		return *(*uint16)(p) == 0
	case empty32:
		return *(*uint32)(p) == 0
	case empty64:
		return *(*uint64)(p) == 0
	case emptyFloat32:
		return *(*float32)(p) == 0
	case emptyFloat64:
		return *(*float64)(p) == 0
	}
	return false
}

// omitted reports whether the field of the struct at p is not encoded.
func (f *field) omitted(p unsafe.Pointer) bool {
	p = unsafe.Add(p, f.offset)
	return f.omit != neverEmpty && f.omit.of(p) || f.zero != nil && f.zero(p)
}

// tree encodes the struct at p. It reports whether codecs can encode all values.
func (s *plan) tree(p unsafe.Pointer, e *encoder) (map[string]any, bool) {
	var encoded [2]uint64 // the fields to encode, as far as they fit
	n := 0
	for i := range s.fields {
		if !s.fields[i].omitted(p) {
			n++
			if i < 128 {
				encoded[i/64] |= 1 << (i % 64)
			}
		}
	}
	tree := make(map[string]any, n)
	for i, set := range encoded {
		for ; set != 0; set &= set - 1 {
			if !s.fields[64*i+bits.TrailingZeros64(set)].put(tree, p, e) {
				return nil, false
			}
		}
	}
	for i := 128; i < len(s.fields); i++ {
		if f := &s.fields[i]; !f.omitted(p) && !f.put(tree, p, e) {
			return nil, false
		}
	}
	return tree, true
}

// put encodes the field of the struct at p into the struct's tree.
func (f *field) put(tree map[string]any, p unsafe.Pointer, e *encoder) bool {
	p = unsafe.Add(p, f.offset)
	if f.text {
		tree[f.name] = e.text(*(*string)(p))
		return true
	}
	value, ok := f.codec.encode(p, e)
	tree[f.name] = value
	return ok
}

// read decodes a tree into the zeroed struct at p. It reports whether codecs can decode all values
// and, if strict, whether the struct has all keys of the tree.
func (s *plan) read(p unsafe.Pointer, tree map[string]any, strict bool) bool {
	for name, value := range tree {
		f := s.names[name]
		if f == nil {
			if strict {
				return false
			}
			continue
		}
		if value == nil {
			continue
		}
		for ; f != nil; f = f.next {
			at := unsafe.Add(p, f.offset)
			if text, ok := value.(string); ok && f.text {
				*(*string)(at) = text
			} else if !f.codec.decode(at, value, strict) {
				return false
			}
		}
	}
	return true
}
