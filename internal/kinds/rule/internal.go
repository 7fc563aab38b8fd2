package rule

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// AsInternal returns a part of an object as Kubernetes' errors show it. Kubernetes validates
// internal types, which have no JSON names: its messages contain the names of Go fields, and unset
// fields too. Types of apimachinery are encoded as usual.
func AsInternal(v any) json.RawMessage {
	var e internalEncoder
	e.value(reflect.ValueOf(v))
	return e.Bytes()
}

type internalEncoder struct{ bytes.Buffer }

func (e *internalEncoder) value(v reflect.Value) {
	if !v.IsValid() {
		e.WriteString("null")
		return
	}
	_, marshals := v.Interface().(json.Marshaler)
	switch kind := v.Kind(); {
	case kind == reflect.Pointer && !v.IsNil():
		e.value(v.Elem())
	case marshals, strings.HasPrefix(v.Type().PkgPath(), "k8s.io/apimachinery/"):
		e.plain(v)
	case kind == reflect.Struct:
		e.WriteByte('{')
		e.fields(v, true)
		e.WriteByte('}')
	case kind == reflect.Slice && !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8:
		e.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				e.WriteByte(',')
			}
			e.value(v.Index(i))
		}
		e.WriteByte(']')
	case kind == reflect.Map && !v.IsNil():
		e.entries(v)
	default:
		e.plain(v)
	}
}

// fields writes the fields of a struct, with those of embedded structs inlined.
func (e *internalEncoder) fields(v reflect.Value, first bool) bool {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous && strings.HasPrefix(f.Type.PkgPath(), "k8s.io/apimachinery/") {
			var inner internalEncoder
			inner.plain(v.Field(i))
			if members := inner.Bytes()[1 : inner.Len()-1]; len(members) > 0 {
				first = e.comma(first)
				e.Write(members)
			}
			continue
		}
		if f.Anonymous {
			first = e.fields(v.Field(i), first)
			continue
		}
		first = e.comma(first)
		e.plain(reflect.ValueOf(f.Name))
		e.WriteByte(':')
		e.value(v.Field(i))
	}
	return first
}

func (e *internalEncoder) entries(v reflect.Value) {
	byKey := map[string]reflect.Value{}
	for it := v.MapRange(); it.Next(); {
		byKey[it.Key().String()] = it.Value()
	}
	e.WriteByte('{')
	for i, key := range slices.Sorted(maps.Keys(byKey)) {
		e.comma(i == 0)
		e.plain(reflect.ValueOf(key))
		e.WriteByte(':')
		e.value(byKey[key])
	}
	e.WriteByte('}')
}

func (e *internalEncoder) comma(first bool) bool {
	if !first {
		e.WriteByte(',')
	}
	return false
}

func (e *internalEncoder) plain(v reflect.Value) {
	text, err := json.Marshal(v.Interface())
	if err != nil { // no API type fails to encode
		text = []byte("null")
	}
	e.Write(text)
}
