package typed

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// isSimple reports whether a kind is a string, bool or number. Methods of such types have no part
// in decoding.
func isSimple(kind reflect.Kind) bool {
	return kind >= reflect.Bool && kind <= reflect.Complex128 || kind == reflect.String
}

// simple completes the codec of a string, bool or number.
func simple(k *codec, kind reflect.Kind) {
	switch kind {
	case reflect.String:
		k.encode = func(p unsafe.Pointer, e *encoder) (any, bool) { return e.text(*(*string)(p)), true }
		k.decode = func(p unsafe.Pointer, tree any, _ bool) bool { return set[string](p, tree) }
	case reflect.Bool:
		k.encode = func(p unsafe.Pointer, e *encoder) (any, bool) { return *(*bool)(p), true }
		k.decode = func(p unsafe.Pointer, tree any, _ bool) bool { return set[bool](p, tree) }
	case reflect.Int:
		integer[int](k)
	case reflect.Int8:
		integer[int8](k)
	case reflect.Int16:
		integer[int16](k)
	case reflect.Int32:
		integer[int32](k)
	case reflect.Int64:
		integer[int64](k)
	case reflect.Uint:
		integer[uint](k)
	case reflect.Uint8:
		integer[uint8](k)
	case reflect.Uint16:
		integer[uint16](k)
	case reflect.Uint32:
		integer[uint32](k)
	case reflect.Uint64:
		integer[uint64](k)
	case reflect.Float32:
		float[float32](k)
	case reflect.Float64:
		float[float64](k)
	}
}

func set[T any](p unsafe.Pointer, tree any) bool {
	v, ok := tree.(T)
	*(*T)(p) = v
	return ok
}

// integer completes the codec of an integer type. As in apimachinery, an int64 that does not fit is
// truncated.
func integer[T int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64](k *codec) {
	k.encode = func(p unsafe.Pointer, e *encoder) (any, bool) {
		v := *(*T)(p)
		return int64(v), v < 0 || uint64(v) <= math.MaxInt64
	}
	k.decode = func(p unsafe.Pointer, tree any, _ bool) bool {
		v, ok := tree.(int64)
		*(*T)(p) = T(v)
		return ok
	}
}

func float[T float32 | float64](k *codec) {
	k.encode = func(p unsafe.Pointer, e *encoder) (any, bool) { return float64(*(*T)(p)), true }
	k.decode = func(p unsafe.Pointer, tree any, _ bool) bool {
		switch v := tree.(type) {
		case float64:
			*(*T)(p) = T(v)
		case int64:
			*(*T)(p) = T(float64(v)) // rounds twice, as package reflect does
		default:
			return false
		}
		return true
	}
}

// A sliceHeader is the memory of a slice.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

// slice completes the codec of a slice type.
func (c compiler) slice(k *codec, t reflect.Type) {
	elem := c.compile(t.Elem())
	size := t.Elem().Size()
	k.encode = func(p unsafe.Pointer, e *encoder) (any, bool) {
		list := (*sliceHeader)(p)
		if list.data == nil {
			return nil, true
		}
		tree := make([]any, list.len)
		for i := range tree {
			var ok bool
			if tree[i], ok = elem.encode(unsafe.Add(list.data, uintptr(i)*size), e); !ok {
				return nil, false
			}
		}
		return e.list(tree), true
	}
	k.decode = func(p unsafe.Pointer, tree any, strict bool) bool {
		list, ok := tree.([]any)
		if !ok || list == nil {
			return ok
		}
		target := reflect.NewAt(t, p).Elem()
		if len(list) == 0 {
			target.Set(reflect.MakeSlice(t, 0, 0))
			return true
		}
		target.Grow(len(list)) // unlike MakeSlice, allocates no header
		target.SetLen(len(list))
		data := (*sliceHeader)(p).data
		for i, v := range list {
			if v != nil && !elem.decode(unsafe.Add(data, uintptr(i)*size), v, strict) {
				return false
			}
		}
		return true
	}
	if t.Elem().Kind() == reflect.Uint8 {
		k.encode, k.decode = encodeBytes, decodeBytes
	}
}

func encodeBytes(p unsafe.Pointer, e *encoder) (any, bool) {
	b := *(*[]byte)(p)
	if b == nil {
		return nil, true
	}
	return e.text(base64.StdEncoding.EncodeToString(b)), true
}

func decodeBytes(p unsafe.Pointer, tree any, _ bool) bool {
	text, ok := tree.(string)
	if !ok {
		return false
	}
	b, err := base64.StdEncoding.DecodeString(text)
	*(*[]byte)(p) = b
	return err == nil
}

// mapping completes the codec of a map type, whose keys must be strings.
func (c compiler) mapping(k *codec, t reflect.Type) {
	elem := c.compile(t.Elem())
	if t.Key().Kind() != reflect.String {
		return
	}
	k.decode = func(p unsafe.Pointer, tree any, strict bool) bool {
		from, ok := tree.(map[string]any)
		if !ok || from == nil {
			return ok
		}
		to := reflect.MakeMapWithSize(t, len(from))
		for key, v := range from {
			entry := reflect.New(elem.typ)
			if v != nil && !elem.decode(entry.UnsafePointer(), v, strict) {
				return false
			}
			to.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), entry.Elem())
		}
		reflect.NewAt(t, p).Elem().Set(to)
		return true
	}
	if needsAddress(elem.typ) {
		return
	}
	k.encode = func(p unsafe.Pointer, e *encoder) (any, bool) {
		from := reflect.NewAt(t, p).Elem()
		if from.IsNil() {
			return nil, true
		}
		tree := make(map[string]any, from.Len())
		entry := reflect.New(elem.typ)
		for i := from.MapRange(); i.Next(); {
			entry.Elem().SetIterValue(i)
			v, ok := elem.encode(entry.UnsafePointer(), e)
			if !ok {
				return nil, false
			}
			tree[i.Key().String()] = v
		}
		return tree, true
	}
	switch {
	case t.Elem().Kind() == reflect.String:
		direct[string](k, elem)
	case t.Elem() == reflect.TypeFor[[]byte]():
		direct[[]byte](k, elem)
	case t.Elem() == reflect.TypeFor[resource.Quantity]():
		direct[resource.Quantity](k, elem)
	}
}

// direct completes the codec of a map from strings to T, or to a type with the same memory, which
// has the codec elem. Types of strings share the memory layout of their maps.
func direct[T any](k, elem *codec) {
	k.encode = func(p unsafe.Pointer, e *encoder) (any, bool) {
		from := *(*map[string]T)(p)
		if from == nil {
			return nil, true
		}
		tree := make(map[string]any, len(from))
		var entry T
		for key, v := range from {
			entry = v
			encoded, ok := elem.encode(unsafe.Pointer(&entry), e)
			if !ok {
				return nil, false
			}
			tree[key] = encoded
		}
		return tree, true
	}
	k.decode = func(p unsafe.Pointer, tree any, strict bool) bool {
		from, ok := tree.(map[string]any)
		if !ok || from == nil {
			return ok
		}
		to := make(map[string]T, len(from))
		var zero, entry T
		for key, v := range from {
			entry = zero
			if v != nil && !elem.decode(unsafe.Pointer(&entry), v, strict) {
				return false
			}
			to[key] = entry
		}
		*(*map[string]T)(p) = to
		return true
	}
}

// needsAddress reports whether methods of pointers encode a type or parts of it. Entries of maps
// have no address, and apimachinery does not encode such entries.
func needsAddress(t reflect.Type) bool {
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			if needsAddress(t.Field(i).Type) {
				return true
			}
		}
	}
	for _, converter := range []reflect.Type{
		reflect.TypeFor[json.Marshaler](),
		reflect.TypeFor[value.UnstructuredConverter](),
		reflect.TypeFor[value.UnstructuredConverterWithError](),
	} {
		if reflect.PointerTo(t).Implements(converter) && !t.Implements(converter) {
			return true
		}
	}
	return false
}

// simpleParser returns the parser of a string, bool or number. A null leaves the value as it is.
func simpleParser(kind reflect.Kind) func(unsafe.Pointer, *reader) bool {
	switch kind {
	case reflect.String:
		return parseText
	case reflect.Bool:
		return parseBool
	case reflect.Int:
		return parseInteger[int]
	case reflect.Int8:
		return parseInteger[int8]
	case reflect.Int16:
		return parseInteger[int16]
	case reflect.Int32:
		return parseInteger[int32]
	case reflect.Int64:
		return parseInteger[int64]
	case reflect.Uint:
		return parseInteger[uint]
	case reflect.Uint8:
		return parseInteger[uint8]
	case reflect.Uint16:
		return parseInteger[uint16]
	case reflect.Uint32:
		return parseInteger[uint32]
	case reflect.Float32:
		return parseFloat[float32]
	case reflect.Float64:
		return parseFloat[float64]
	}
	return cannotParse
}

func parseText(p unsafe.Pointer, r *reader) (ok bool) {
	*(*string)(p), ok = r.string()
	return ok
}

func parseBool(p unsafe.Pointer, r *reader) bool {
	switch r.next() {
	case 't':
		*(*bool)(p) = true
		return r.word("true")
	case 'f':
		return r.word("false")
	}
	return r.null()
}

// parseInteger does not support values beyond int64.
func parseInteger[T int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32](p unsafe.Pointer, r *reader) bool {
	text, integer, ok := r.number()
	if !ok || !integer {
		return false
	}
	v, err := parseInt(text, 64)
	*(*T)(p) = T(v)
	return err == nil && int64(T(v)) == v && (text[0] != '-' || T(0)-1 < 0)
}

func parseFloat[T float32 | float64](p unsafe.Pointer, r *reader) bool {
	text, _, ok := r.number()
	if !ok {
		return false
	}
	v, err := strconv.ParseFloat(string(text), int(8*unsafe.Sizeof(T(0))))
	*(*T)(p) = T(v)
	return err == nil
}

// parseBytes parses a []byte, which is base64.
func parseBytes(p unsafe.Pointer, r *reader) bool {
	text, ok := r.text()
	if !ok {
		return false
	}
	b := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(b, text)
	*(*[]byte)(p) = b[:n]
	return err == nil
}

// parseTexts parses a map[string]string.
func parseTexts(p unsafe.Pointer, r *reader) bool {
	to := map[string]string{}
	*(*map[string]string)(p) = to
	return r.object(func(text []byte) bool {
		key := string(text)
		var v string
		_, repeated := to[key]
		ok := !repeated && parseText(unsafe.Pointer(&v), r)
		to[key] = v
		return ok
	})
}
