package cost

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A field is one that can grow: a list, a map or a string in the Go type of a kind.
type field struct {
	path []step
	of   reflect.Type
}

// A step leads from a value to one within: the field of that name, or the first element of a list
// or a map for an empty name.
type step string

func (f field) String() string {
	var b strings.Builder
	for _, s := range f.path {
		if s == "" {
			b.WriteString("[]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(string(s))
	}
	return b.String()
}

// deepest bounds the paths of fields: deeper ones mostly repeat known types.
const deepest = 9

// A walker finds the fields of types that can grow. It visits each struct type once, as its fields
// are validated in much the same way everywhere.
type walker struct {
	entered map[reflect.Type]bool
	found   []field
}

func (w *walker) fieldsOf(t reflect.Type) []field {
	w.found = nil
	w.walk(nil, t)
	return w.found
}

// opaque are types whose JSON is a scalar or any value.
var opaque = map[reflect.Type]bool{
	reflect.TypeFor[metav1.Time]():          true,
	reflect.TypeFor[metav1.MicroTime]():     true,
	reflect.TypeFor[metav1.Duration]():      true,
	reflect.TypeFor[metav1.FieldsV1]():      true,
	reflect.TypeFor[resource.Quantity]():    true,
	reflect.TypeFor[intstr.IntOrString]():   true,
	reflect.TypeFor[runtime.RawExtension](): true,
}

func (w *walker) walk(path []step, t reflect.Type) {
	if len(path) > deepest {
		return
	}
	switch {
	case t.Kind() == reflect.Pointer:
		w.walk(path, t.Elem())
	case opaque[t]:
	case t.Kind() == reflect.Struct:
		if w.entered[t] {
			return
		}
		w.entered[t] = true
		for f := range jsonFields(t) {
			w.walk(append(path[:len(path):len(path)], step(f.name)), f.of)
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8, t.Kind() == reflect.Map:
		w.found = append(w.found, field{path, t})
		w.walk(append(path[:len(path):len(path)], ""), t.Elem())
	case t.Kind() == reflect.String, t.Kind() == reflect.Slice:
		w.found = append(w.found, field{path, t})
	}
}

type jsonField struct {
	name string
	of   reflect.Type
}

// jsonFields yields the fields of a struct in JSON, except for the type's name.
func jsonFields(t reflect.Type) func(yield func(jsonField) bool) {
	return func(yield func(jsonField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Type == reflect.TypeFor[metav1.TypeMeta](), name == "-":
			case name == "" && (f.Anonymous || strings.Contains(options, "inline")):
				of := f.Type
				if of.Kind() == reflect.Pointer {
					of = of.Elem()
				}
				if of.Kind() != reflect.Struct {
					continue
				}
				for inner := range jsonFields(of) {
					if !yield(inner) {
						return
					}
				}
			case name != "":
				if !yield(jsonField{name, f.Type}) {
					return
				}
			}
		}
	}
}

// A shape is the way in which the content of a field grows.
type shape struct {
	name string
	// element returns the i-th element of a list or map, which is of type t; nil if the shape does
	// not apply.
	element func(t reflect.Type, i int) any
}

var shapes = []shape{
	{"empty", func(t reflect.Type, i int) any { return empty(t) }},
	{"full", func(t reflect.Type, i int) any { return full(t, i, 2) }},
	{"same", func(t reflect.Type, i int) any { return full(t, 0, 2) }},
	{"wrong", func(t reflect.Type, i int) any { return -7 }},
}

// empty returns the shortest value of a type.
func empty(t reflect.Type) any {
	switch {
	case t.Kind() == reflect.Pointer:
		return empty(t.Elem())
	case opaque[t]:
		return nil
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		return map[string]any{}
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		return []any{}
	case t.Kind() == reflect.String, t.Kind() == reflect.Slice:
		return ""
	case t.Kind() == reflect.Bool:
		return false
	}
	return 0
}

// full returns a value with every field set, to some depth, with i in its strings and numbers.
func full(t reflect.Type, i, depth int) any {
	switch {
	case t.Kind() == reflect.Pointer:
		return full(t.Elem(), i, depth)
	case t == reflect.TypeFor[metav1.Time](), t == reflect.TypeFor[metav1.MicroTime]():
		return "2026-01-02T03:04:05Z"
	case t == reflect.TypeFor[metav1.Duration]():
		return "5s"
	case t == reflect.TypeFor[resource.Quantity]():
		return fmt.Sprint(i + 1)
	case t == reflect.TypeFor[intstr.IntOrString]():
		return i%60000 + 1
	case opaque[t]:
		return map[string]any{"f:x": map[string]any{}}
	case t.Kind() == reflect.Struct:
		out := map[string]any{}
		if depth > 0 {
			for f := range jsonFields(t) {
				out[f.name] = full(f.of, i, depth-1)
			}
		}
		return out
	case t.Kind() == reflect.Map:
		return map[string]any{fmt.Sprintf("k%d", i): full(t.Elem(), i, depth-1)}
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		return []any{full(t.Elem(), i, depth-1)}
	case t.Kind() == reflect.String:
		return fmt.Sprintf("x%d", i)
	case t.Kind() == reflect.Slice:
		return "eHl6"
	case t.Kind() == reflect.Bool:
		return true
	}
	return i%60000 + 1
}

// grow returns a copy of obj in which the field has about size bytes of JSON; nil if the shape does
// not apply.
func grow(obj map[string]any, f field, s shape, size int) map[string]any {
	var value any
	switch f.of.Kind() {
	case reflect.String:
		if s.name != "full" {
			return nil
		}
		value = strings.Repeat("a", size)
	case reflect.Map:
		m := map[string]any{}
		for i, length := 0, 0; length < size; i++ {
			key := fmt.Sprintf("k%d", i)
			if s.name == "same" {
				key = fmt.Sprintf("-/%d!", i) // an invalid key
			}
			m[key] = s.element(f.of.Elem(), i)
			length += len(key) + 4 + lengthOf(m[key])
		}
		value = m
	default:
		if f.of.Elem().Kind() == reflect.Uint8 {
			if s.name != "full" {
				return nil
			}
			value = strings.Repeat("YWJj", size/4)
			break
		}
		list := []any{}
		for i, length := 0, 0; length < size; i++ {
			list = append(list, s.element(f.of.Elem(), i))
			length += 1 + lengthOf(list[i])
		}
		value = list
	}
	return runtime.DeepCopyJSON(normal(set(obj, f.path, value)).(map[string]any))
}

// set returns obj with a value at a path. It copies the parts that it changes.
func set(at any, path []step, value any) any {
	if len(path) == 0 {
		return value
	}
	if path[0] == "" {
		switch at := at.(type) {
		case []any:
			if len(at) > 0 {
				return append([]any{set(at[0], path[1:], value)}, at[1:]...)
			}
		case map[string]any:
			for k, v := range at {
				return map[string]any{k: set(v, path[1:], value)}
			}
		}
		return []any{set(nil, path[1:], value)}
	}
	out := map[string]any{}
	if m, ok := at.(map[string]any); ok {
		for k, v := range m {
			out[k] = v
		}
	}
	out[string(path[0])] = set(out[string(path[0])], path[1:], value)
	return out
}

// normal converts numbers to those of decoded JSON.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = normal(v[k])
		}
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case int:
		return int64(v)
	}
	return v
}

// lengthOf returns the approximate length of a value in JSON.
func lengthOf(v any) int {
	switch v := v.(type) {
	case map[string]any:
		n := 2
		for k, e := range v {
			n += len(k) + 4 + lengthOf(e)
		}
		return n
	case []any:
		n := 2
		for _, e := range v {
			n += 1 + lengthOf(e)
		}
		return n
	case string:
		return len(v) + 2
	}
	return len(fmt.Sprint(v))
}
