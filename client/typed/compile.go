package typed

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// A codec converts values of a Go type.
type codec struct {
	typ reflect.Type
	// encode returns the tree of the value at p, and whether there is one.
	encode func(p unsafe.Pointer, e *encoder) (any, bool)
	// decode sets the zeroed value at p from a tree that is not nil. It reports whether the tree
	// fits and, if strict, whether structs have all keys of the tree. If not, the value is
	// unspecified.
	decode func(p unsafe.Pointer, tree any, strict bool) bool
	// parse is [codec.read] for JSON that is not null. With parsesNull, it also reads null, which a
	// method UnmarshalJSON gets.
	parse      func(p unsafe.Pointer, r *reader) bool
	parsesNull bool
	// reads and writes are the plan of a struct; nil if a method decodes or encodes the type.
	reads, writes *plan
}

// codecs are the compiled types, by reflect.Type: *codec.
var codecs sync.Map

var (
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	unstructuredType    = reflect.TypeFor[runtime.Unstructured]()
)

// hasUnmarshaler reports whether a method decodes values of a type from JSON, including null.
func hasUnmarshaler(t reflect.Type) bool { return reflect.PointerTo(t).Implements(unmarshalerType) }

// codecOf returns the codec of a type.
func codecOf(t reflect.Type) *codec {
	if done, ok := codecs.Load(t); ok {
		return done.(*codec)
	}
	c := compiler{}
	root := c.compile(t)
	for t, done := range c { // none is visible before all are complete
		codecs.LoadOrStore(t, done)
	}
	return root
}

// A compiler has the codecs that are being compiled. They may refer to each other.
type compiler map[reflect.Type]*codec

// compile returns the codec of a type, which is complete when all of c are.
func (c compiler) compile(t reflect.Type) *codec {
	if done, ok := codecs.Load(t); ok {
		return done.(*codec)
	}
	if begun := c[t]; begun != nil {
		return begun
	}
	k := &codec{typ: t, encode: cannotEncode, decode: cannotDecode, parse: cannotParse, parsesNull: hasUnmarshaler(t)}
	c[t] = k
	if c.leaf(k) {
		return k
	}
	reads := isSimple(t.Kind()) || !hasUnmarshaler(t)
	// The methods of a pointer's element are called when that is encoded.
	writes := t.Kind() == reflect.Pointer || !value.TypeReflectEntryOf(t).CanConvertToUnstructured()
	plain := c.kind(t)
	k.parse = c.parser(t, &plain)
	if k.decode = plain.decode; !reads {
		k.decode = decodeByMethod(t)
	}
	if k.encode = plain.encode; !writes {
		k.encode = encodeByMethod(t)
	}
	if reads {
		k.reads = plain.reads
	}
	if writes && !reflect.PointerTo(t).Implements(unstructuredType) {
		k.writes = plain.writes
	}
	return k
}

// kind returns a codec that follows from the structure of a type, whatever methods it has.
func (c compiler) kind(t reflect.Type) codec {
	k := codec{encode: cannotEncode, decode: cannotDecode}
	switch t.Kind() {
	case reflect.Map:
		c.mapping(&k, t)
	case reflect.Slice:
		c.slice(&k, t)
	case reflect.Pointer:
		elem := c.compile(t.Elem())
		k.encode = func(p unsafe.Pointer, e *encoder) (any, bool) {
			if p = *(*unsafe.Pointer)(p); p == nil {
				return nil, true
			}
			return elem.encode(p, e)
		}
		if t.Elem().Kind() == reflect.Interface {
			break
		}
		k.decode = func(p unsafe.Pointer, tree any, strict bool) bool {
			target := reflect.New(elem.typ).UnsafePointer()
			*(*unsafe.Pointer)(p) = target
			return elem.decode(target, tree, strict)
		}
	case reflect.Struct:
		if s := c.plan(t); s != nil {
			k.reads, k.writes = s, s
			k.encode = func(p unsafe.Pointer, e *encoder) (any, bool) { return s.tree(p, e) }
			k.decode = func(p unsafe.Pointer, tree any, strict bool) bool {
				m, ok := tree.(map[string]any)
				return ok && s.read(p, m, strict)
			}
		}
	case reflect.Interface:
		k.encode = func(p unsafe.Pointer, e *encoder) (any, bool) { return nil, emptyPointer.of(p) }
		if t.NumMethod() == 0 {
			k.decode = func(p unsafe.Pointer, tree any, _ bool) bool {
				*(*any)(p) = tree
				return true
			}
		}
	default:
		simple(&k, t.Kind())
	}
	return k
}

// plan returns the plan of a struct type, nil if it has fields that plans do not support.
func (c compiler) plan(t reflect.Type) *plan {
	s := &plan{names: map[string]*field{}}
	if !c.fields(s, t, 0) {
		return nil
	}
	s.notJSON = s.notJSON || len(s.fields) > maxFields
	for i := range s.fields {
		f := &s.fields[i]
		f.number = uint8(i)
		f.next, s.names[f.name] = s.names[f.name], f
		s.notJSON = s.notJSON || f.next != nil || f.name == "-" // package json does not decode these
	}
	kept := make([]field, 0, len(s.fields))
	for _, f := range s.fields {
		if f.name != "-" { // apimachinery decodes such fields, but does not encode them
			kept = append(kept, f)
		}
	}
	s.fields = kept
	return s
}

// fields adds the fields of a struct type at an offset to a plan. It reports whether plans support
// all of them.
func (c compiler) fields(s *plan, t reflect.Type, offset uintptr) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("json"), ",")
		name, options := tag[0], tag[1:]
		at := offset + f.Offset
		if !f.IsExported() || slices.Contains(options, "embed") { // embed depends on the version of Go
			return false
		}
		if name == "" && f.Anonymous {
			if f.Type.Kind() != reflect.Struct || slices.Contains(options, "omitzero") || hasUnmarshaler(f.Type) ||
				value.TypeReflectEntryOf(f.Type).CanConvertToUnstructured() || !c.fields(s, f.Type, at) {
				return false
			}
			continue
		}
		if name == "" {
			name = f.Name
		}
		added := field{name: name, offset: at, text: f.Type.Kind() == reflect.String}
		if isSimple(f.Type.Kind()) { // methods are ignored
			k := c.kind(f.Type)
			k.parse, k.parsesNull = c.parser(f.Type, &k), hasUnmarshaler(f.Type)
			added.codec = &k
		} else {
			added.codec = c.compile(f.Type)
		}

		s.notJSON = s.notJSON || slices.Contains(options, "string")
		if slices.Contains(options, "omitempty") {
			added.omit = emptinessOf(f.Type.Kind())
		}
		if slices.Contains(options, "omitzero") {
			added.zero = zeroTest(f.Type)
		}
		s.fields = append(s.fields, added)
	}
	return true
}

// emptinessOf returns what omitempty omits for a kind of field.
func emptinessOf(kind reflect.Kind) emptiness {
	switch kind {
	case reflect.String:
		return emptyString
	case reflect.Slice:
		return emptySlice
	case reflect.Map:
		return emptyMap
	case reflect.Pointer, reflect.Interface:
		return emptyPointer
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return empty8
	case reflect.Int16, reflect.Uint16:
		return empty16
	case reflect.Int32, reflect.Uint32:
		return empty32
	case reflect.Int64, reflect.Uint64:
		return empty64
	case reflect.Int, reflect.Uint:
		if unsafe.Sizeof(int(0)) == 4 {
			return empty32
		}
		return empty64
	case reflect.Float32:
		return emptyFloat32
	case reflect.Float64:
		return emptyFloat64
	}
	return neverEmpty
}

// zeroTest returns a function that reports whether omitzero omits the value at an address.
func zeroTest(t reflect.Type) func(p unsafe.Pointer) bool {
	if isTime(t) {
		return timeIsZero
	}
	test := value.OmitZeroFunc(t)
	return func(p unsafe.Pointer) bool { return test(reflect.NewAt(t, p).Elem()) }
}

func cannotEncode(unsafe.Pointer, *encoder) (any, bool) { return nil, false }

func cannotDecode(unsafe.Pointer, any, bool) bool { return false }

// decodeByMethod decodes values of a type with a method UnmarshalJSON.
func decodeByMethod(t reflect.Type) func(unsafe.Pointer, any, bool) bool {
	return func(p unsafe.Pointer, tree any, _ bool) bool {
		data, err := appendJSON(nil, tree)
		return err == nil && reflect.NewAt(t, p).Interface().(json.Unmarshaler).UnmarshalJSON(data) == nil
	}
}

// encodeByMethod encodes values of a type with a method MarshalJSON or ToUnstructured.
func encodeByMethod(t reflect.Type) func(unsafe.Pointer, *encoder) (any, bool) {
	entry := value.TypeReflectEntryOf(t)
	return func(p unsafe.Pointer, e *encoder) (any, bool) {
		v, err := entry.ToUnstructured(reflect.NewAt(t, p).Elem())
		return v, err == nil
	}
}
