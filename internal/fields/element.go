package fields

import (
	"errors"
	"math"
	"slices"
	"strconv"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Path elements have the spelling of FieldsV1: "f:name", `k:{"port":80}`, `v:"item"` or "i:0". It
// is the canonical one that the library of server-side apply writes: two elements are equal if and
// only if their spellings are.

// isSpeltWell reports whether an element certainly has the canonical spelling. It returns true for
// nearly all stored elements; spell handles the others.
func isSpeltWell(element string) bool {
	if len(element) < 2 || element[1] != ':' {
		return false
	}
	switch rest := element[2:]; element[0] {
	case 'f':
		return true
	case 'v':
		end, ok := plainScalar(rest, 0)
		return ok && end == len(rest)
	case 'k':
		return isPlainKey(rest)
	case 'i':
		end, ok := plainNumber(rest, 0)
		return ok && end == len(rest)
	}
	return false
}

// isPlainKey reports whether s is an object of scalars with sorted names, all of which have only
// one spelling.
func isPlainKey(s string) bool {
	if len(s) < 2 || s[0] != '{' {
		return false
	}
	last, i := "", 1
	for first := true; ; first = false {
		end, ok := plainString(s, i)
		if !ok || end >= len(s) || s[end] != ':' {
			return false
		}
		name := s[i:end]
		if !first && name <= last {
			return false
		}
		last = name
		if i, ok = plainScalar(s, end+1); !ok || i >= len(s) {
			return false
		}
		switch s[i] {
		case '}':
			return i == len(s)-1
		case ',':
			i++
		default:
			return false
		}
	}
}

// plainScalar returns the end of a scalar that starts at i and has only one spelling.
func plainScalar(s string, i int) (end int, ok bool) {
	if i >= len(s) {
		return 0, false
	}
	switch c := s[i]; {
	case c == '"':
		return plainString(s, i)
	case c == '-' || c >= '0' && c <= '9':
		return plainNumber(s, i)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if len(s)-i >= len(word) && s[i:i+len(word)] == word {
			return i + len(word), true
		}
	}
	return 0, false
}

func plainString(s string, i int) (end int, ok bool) {
	if i >= len(s) || s[i] != '"' {
		return 0, false
	}
	for i++; i < len(s); i++ {
		if s[i] == '"' {
			return i + 1, true
		}
		if !isPlain(s[i]) {
			return 0, false
		}
	}
	return 0, false
}

// isPlain reports whether no JSON encoder escapes a byte.
func isPlain(c byte) bool {
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
}

// plainNumber returns the end of an integer that a float can represent.
func plainNumber(s string, i int) (end int, ok bool) {
	if i < len(s) && s[i] == '-' {
		i++
		if i < len(s) && s[i] == '0' {
			return 0, false
		}
	}
	start := i
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	switch digits := i - start; {
	case digits == 0, digits > 15, digits > 1 && s[start] == '0':
		return 0, false
	case i < len(s) && (s[i] == '.' || s[i] == 'e' || s[i] == 'E'):
		return 0, false
	}
	return i, true
}

// spell returns the canonical spelling of an element. An element of an unknown type is not an
// error: known is false, and the caller drops it.
func spell(element string) (spelt string, known bool, err error) {
	pe, err := fieldpath.DeserializePathElement(element)
	if errors.Is(err, fieldpath.ErrUnknownPathElementType) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	spelt, err = fieldpath.SerializePathElement(pe)
	return spelt, err == nil, err
}

// invalidElement is the element of an item without an identity. No valid element has it.
const invalidElement = ""

// elementOf returns the element of a list item, which must have an identity.
func (n *node) elementOf(item any) string {
	var room [64]byte
	b, ok := n.appendElement(room[:0], item)
	if ok {
		return string(b)
	}
	return n.slowElementOf(item)
}

func (n *node) appendElement(b []byte, item any) ([]byte, bool) {
	if len(n.keys) == 0 {
		return appendPlain(append(b, "v:"...), item)
	}
	m, _ := item.(map[string]any)
	b = append(b, "k:{"...)
	first, ok := true, true
	for i := range n.keys {
		k := &n.keys[i]
		v, has := k.of(m)
		if !has {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		if b, ok = appendPlain(b, k.name); !ok {
			return nil, false
		}
		if b, ok = appendPlain(append(b, ':'), v); !ok {
			return nil, false
		}
	}
	return append(b, '}'), true
}

// of returns the value of a key in an item.
func (k *key) of(item map[string]any) (v any, ok bool) {
	if v, ok = item[k.name]; ok {
		return v, true
	}
	return k.fallback, k.fallback != nil
}

// largest is the largest integer in an element: after a read from the store, elements contain
// floats.
const largest = 1 << 53

// appendPlain appends a scalar that has only one spelling.
func appendPlain(b []byte, v any) ([]byte, bool) {
	switch v := v.(type) {
	case string:
		for i := 0; i < len(v); i++ {
			if !isPlain(v[i]) {
				return nil, false
			}
		}
		b = append(b, '"')
		b = append(b, v...)
		return append(b, '"'), true
	case int64:
		if v < -largest || v > largest {
			return nil, false
		}
		return strconv.AppendInt(b, v, 10), true
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > largest || v == 0 && math.Signbit(v) {
			return nil, false
		}
		return strconv.AppendInt(b, int64(v), 10), true
	case bool:
		return strconv.AppendBool(b, v), true
	case nil:
		return append(b, "null"...), true
	}
	return nil, false
}

func (n *node) slowElementOf(item any) string {
	var pe fieldpath.PathElement
	if len(n.keys) == 0 {
		v := value.NewValueInterface(read(item))
		pe.Value = &v
	} else {
		m, _ := item.(map[string]any)
		fields := value.FieldList{}
		for i := range n.keys {
			if v, ok := n.keys[i].of(m); ok {
				fields = append(fields, value.Field{Name: n.keys[i].name, Value: value.NewValueInterface(read(v))})
			}
		}
		pe.Key = &fields
	}
	s, err := fieldpath.SerializePathElement(pe)
	if err != nil { // cannot happen: v is JSON
		return invalidElement
	}
	return s
}

// read returns a value as in an element that was stored.
func read(v any) any {
	if n, ok := v.(int64); ok && (n < -largest || n > largest) {
		return float64(n)
	}
	return v
}

// sortElements sorts elements as the library does: fields, keys, values and indices, each by value.
func sortElements(elements []string) {
	slices.SortFunc(elements, func(a, b string) int { return parsed(a).Compare(parsed(b)) })
}

// parsed returns an element in the form of the library.
func parsed(element string) fieldpath.PathElement {
	pe, err := fieldpath.DeserializePathElement(element)
	if err != nil {
		return fieldpath.PathElement{}
	}
	return pe
}
