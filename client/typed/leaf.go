package typed

import (
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// leaf completes the codec of a type whose methods this package replaces, because they go through
// JSON text. It reports whether it has.
func (c compiler) leaf(k *codec) bool {
	byMethod := decodeByMethod(k.typ)
	k.parse = parseByMethod(k.typ)
	switch k.typ {
	case reflect.TypeFor[metav1.Time]():
		k.encode, k.decode, k.parse = encodeTime(time.RFC3339), decodeTime(time.RFC3339), parseTime(time.RFC3339)
		k.parsesNull = false
	case reflect.TypeFor[metav1.MicroTime]():
		k.encode, k.decode, k.parse = encodeTime(metav1.RFC3339Micro), decodeTime(metav1.RFC3339Micro), parseTime(metav1.RFC3339Micro)
		k.parsesNull = false
	case reflect.TypeFor[metav1.Duration]():
		k.encode = func(p unsafe.Pointer, e *encoder) (any, bool) { return e.text((*time.Duration)(p).String()), true }
		k.decode = decodeDuration
	case reflect.TypeFor[resource.Quantity]():
		k.encode, k.parse = encodeQuantity, parseQuantity
		k.decode = func(p unsafe.Pointer, tree any, strict bool) bool {
			return decodeQuantity(p, tree) || byMethod(p, tree, strict)
		}
	case reflect.TypeFor[intstr.IntOrString]():
		k.encode, k.decode, k.parse = encodeIntOrString, decodeIntOrString, parseIntOrString
	case reflect.TypeFor[runtime.RawExtension]():
		k.encode, k.decode = encodeByMethod(k.typ), decodeRaw
	case reflect.TypeFor[metav1.FieldsV1]():
		slow := encodeByMethod(k.typ)
		k.encode = func(p unsafe.Pointer, e *encoder) (any, bool) {
			if tree, ok := parseFields((*metav1.FieldsV1)(p).GetRawString()); ok {
				return tree, true
			}
			return slow(p, e)
		}
		k.decode = byMethod
	default:
		return false
	}
	return true
}

// isTime reports whether a type has the memory of a time.Time, and is zero when that is.
func isTime(t reflect.Type) bool {
	return t == reflect.TypeFor[metav1.Time]() || t == reflect.TypeFor[metav1.MicroTime]()
}

func timeIsZero(p unsafe.Pointer) bool { return (*time.Time)(p).IsZero() }

// encodeTime encodes a metav1.Time or MicroTime.
func encodeTime(layout string) func(unsafe.Pointer, *encoder) (any, bool) {
	return func(p unsafe.Pointer, e *encoder) (any, bool) {
		if timeIsZero(p) {
			return nil, true
		}
		return e.text((*time.Time)(p).UTC().Format(layout)), true
	}
}

// decodeTime decodes a metav1.Time or MicroTime.
func decodeTime(layout string) func(unsafe.Pointer, any, bool) bool {
	return func(p unsafe.Pointer, tree any, _ bool) bool {
		text, ok := tree.(string)
		if !ok {
			return false
		}
		t, err := time.Parse(layout, text)
		*(*time.Time)(p) = t.Local()
		return err == nil
	}
}

// parseTime parses a metav1.Time or MicroTime.
func parseTime(layout string) func(unsafe.Pointer, *reader) bool {
	return func(p unsafe.Pointer, r *reader) bool {
		text, ok := r.text()
		if !ok {
			return false
		}
		t, err := time.Parse(layout, string(text))
		*(*time.Time)(p) = t.Local()
		return err == nil
	}
}

func decodeDuration(p unsafe.Pointer, tree any, _ bool) bool {
	text, ok := tree.(string)
	if !ok {
		return false
	}
	d, err := time.ParseDuration(text)
	*(*time.Duration)(p) = d
	return err == nil
}

func encodeQuantity(p unsafe.Pointer, e *encoder) (any, bool) {
	q := *(*resource.Quantity)(p) // String modifies it
	return e.text(q.String()), true
}

// decodeQuantity decodes a Quantity from an integer or a string.
func decodeQuantity(p unsafe.Pointer, tree any) bool {
	var text string
	switch v := tree.(type) {
	case string:
		text = v
	case int64:
		text = strconv.FormatInt(v, 10)
	}
	for i := range len(text) {
		// UnmarshalJSON trims space, and does not unquote what is escaped in JSON.
		if c := text[i]; c <= ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c >= utf8.RuneSelf {
			return false
		}
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return false
	}
	*(*resource.Quantity)(p) = q
	return true
}

func parseQuantity(p unsafe.Pointer, r *reader) bool {
	text, ok := r.skip()
	return ok && (*resource.Quantity)(p).UnmarshalJSON(text) == nil
}

func encodeIntOrString(p unsafe.Pointer, e *encoder) (any, bool) {
	switch v := (*intstr.IntOrString)(p); v.Type {
	case intstr.Int:
		return int64(v.IntVal), true
	case intstr.String:
		return e.text(v.StrVal), utf8.ValidString(v.StrVal)
	}
	return nil, false
}

func decodeIntOrString(p unsafe.Pointer, tree any, _ bool) bool {
	to := (*intstr.IntOrString)(p)
	switch v := tree.(type) {
	case string:
		*to = intstr.FromString(v)
		return utf8.ValidString(v)
	case int64:
		*to = intstr.FromInt32(int32(v))
		return int64(to.IntVal) == v
	}
	return false
}

func parseIntOrString(p unsafe.Pointer, r *reader) bool {
	text, ok := r.skip()
	return ok && (*intstr.IntOrString)(p).UnmarshalJSON(text) == nil
}

// decodeRaw decodes a RawExtension.
func decodeRaw(p unsafe.Pointer, tree any, _ bool) bool {
	data, err := appendJSON(nil, tree)
	if string(data) != "null" { // a nil map or slice
		*(*runtime.RawExtension)(p) = runtime.RawExtension{Raw: data}
	}
	return err == nil
}
