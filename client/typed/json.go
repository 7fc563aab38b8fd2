package typed

import (
	"encoding/json"
	"reflect"
	"unsafe"

	kjson "sigs.k8s.io/json"
)

// FromJSON decodes JSON into the struct that into points to, as UnmarshalCaseSensitivePreserveInts
// of sigs.k8s.io/json does.
func FromJSON(data []byte, into any) error {
	if parse(data, into, false) {
		return nil
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// FromJSONStrict decodes JSON as UnmarshalStrict of sigs.k8s.io/json does: strict are the errors
// for unknown and repeated keys.
func FromJSONStrict(data []byte, into any) (strict []error, err error) {
	if parse(data, into, true) {
		return nil, nil
	}
	return kjson.UnmarshalStrict(data, into)
}

// Tree decodes a JSON object as UnmarshalCaseSensitivePreserveInts of sigs.k8s.io/json decodes it
// into a map.
func Tree(data []byte) (map[string]any, error) {
	return treeOf(reader{data: data})
}

// SharedTree is Tree. The strings of the tree share memory with data, which must not change: clone
// those that are kept.
func SharedTree(data []byte) (map[string]any, error) {
	return treeOf(reader{data: data, shares: true})
}

// TreeStrict decodes a JSON object as UnmarshalStrict of sigs.k8s.io/json decodes it into a map:
// strict are the errors for repeated keys.
func TreeStrict(data []byte) (tree map[string]any, strict []error, err error) {
	if tree, ok := parseTree(reader{data: data}); ok {
		return tree, nil, nil
	}
	strict, err = kjson.UnmarshalStrict(data, &tree)
	return tree, strict, err
}

func treeOf(r reader) (tree map[string]any, err error) {
	if tree, ok := parseTree(r); ok {
		return tree, nil
	}
	err = kjson.UnmarshalCaseSensitivePreserveInts(r.data, &tree)
	return tree, err
}

func parseTree(r reader) (map[string]any, bool) {
	v, ok := r.tree()
	tree, isObject := v.(map[string]any)
	return tree, ok && isObject && r.end()
}

// parse reports whether codecs have decoded the JSON. If not, into is as it was.
func parse(data []byte, into any, strict bool) bool {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return false
	}
	t := v.Type().Elem()
	if t.Kind() != reflect.Struct || hasUnmarshaler(t) {
		return false
	}
	k, p := codecOf(t), v.UnsafePointer()
	if !zeroed(p, t.Size()) { // codecs need zeroed memory
		return false
	}
	r := reader{data: data, strict: strict}
	if r.next() == '{' && k.parse(p, &r) && r.end() {
		return true
	}
	v.Elem().SetZero()
	return false
}

// read sets the zeroed value at p from JSON, and passes over it. It reports whether it could. If
// not, the value is unspecified.
func (k *codec) read(p unsafe.Pointer, r *reader) bool {
	if !k.parsesNull && r.next() == 'n' {
		return r.null()
	}
	return k.parse(p, r)
}

func cannotParse(unsafe.Pointer, *reader) bool { return false }

// parser returns the function that parses values of a type, which has the codec k.
func (c compiler) parser(t reflect.Type, k *codec) func(unsafe.Pointer, *reader) bool {
	switch {
	case hasUnmarshaler(t):
		return parseByMethod(t)
	case reflect.PointerTo(t).Implements(textUnmarshalerType):
		return cannotParse
	}
	switch t.Kind() {
	case reflect.Struct:
		return structParser(k.reads)
	case reflect.Pointer:
		return c.pointerParser(t)
	case reflect.Slice:
		return c.sliceParser(t)
	case reflect.Map:
		return c.mapParser(t)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return func(p unsafe.Pointer, r *reader) (ok bool) {
				*(*any)(p), ok = r.tree()
				return ok
			}
		}
	default:
		return simpleParser(t.Kind())
	}
	return cannotParse
}

// parseByMethod parses values of a type with a method UnmarshalJSON.
func parseByMethod(t reflect.Type) func(unsafe.Pointer, *reader) bool {
	return func(p unsafe.Pointer, r *reader) bool {
		text, ok := r.skip()
		return ok && reflect.NewAt(t, p).Interface().(json.Unmarshaler).UnmarshalJSON(text) == nil
	}
}

func structParser(s *plan) func(unsafe.Pointer, *reader) bool {
	if s == nil || s.notJSON {
		return cannotParse
	}
	return func(p unsafe.Pointer, r *reader) bool {
		var seen [maxFields / 64]uint64
		return r.object(func(key []byte) bool {
			f := s.names[string(key)]
			if f == nil {
				if r.strict {
					return false
				}
				_, ok := r.skip()
				return ok
			}
			if seen[f.number/64]&(1<<(f.number%64)) != 0 { // a second value is merged into the first
				return false
			}
			seen[f.number/64] |= 1 << (f.number % 64)
			return f.codec.read(unsafe.Add(p, f.offset), r)
		})
	}
}

func (c compiler) pointerParser(t reflect.Type) func(unsafe.Pointer, *reader) bool {
	elem := c.compile(t.Elem())
	if t.Elem().Kind() == reflect.Interface {
		return cannotParse
	}
	return func(p unsafe.Pointer, r *reader) bool {
		target := reflect.New(elem.typ).UnsafePointer()
		*(*unsafe.Pointer)(p) = target
		return elem.read(target, r)
	}
}

func (c compiler) sliceParser(t reflect.Type) func(unsafe.Pointer, *reader) bool {
	elem := c.compile(t.Elem())
	if t.Elem().Kind() == reflect.Uint8 {
		return parseBytes
	}
	size := t.Elem().Size()
	return func(p unsafe.Pointer, r *reader) bool {
		target := reflect.NewAt(t, p).Elem()
		list := (*sliceHeader)(p)
		ok := r.list(func() bool {
			if list.len == list.cap {
				target.Grow(1) // to twice its capacity, with zeroed memory
			}
			list.len++
			return elem.read(unsafe.Add(list.data, uintptr(list.len-1)*size), r)
		})
		if ok && list.data == nil {
			target.Set(reflect.MakeSlice(t, 0, 0))
		}
		return ok
	}
}

func (c compiler) mapParser(t reflect.Type) func(unsafe.Pointer, *reader) bool {
	elem := c.compile(t.Elem())
	if t.Key().Kind() != reflect.String || reflect.PointerTo(t.Key()).Implements(textUnmarshalerType) {
		return cannotParse
	}
	if t == reflect.TypeFor[map[string]string]() {
		return parseTexts
	}
	return func(p unsafe.Pointer, r *reader) bool {
		to := reflect.MakeMap(t)
		ok := r.object(func(text []byte) bool {
			key, entry := reflect.New(t.Key()).Elem(), reflect.New(elem.typ)
			key.SetString(string(text))
			if to.MapIndex(key).IsValid() || !elem.read(entry.UnsafePointer(), r) { // strict decoding reports repeated keys
				return false
			}
			to.SetMapIndex(key, entry.Elem())
			return true
		})
		reflect.NewAt(t, p).Elem().Set(to)
		return ok
	}
}
