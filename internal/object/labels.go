package object

import (
	"iter"
	"slices"
	"strings"
	"unsafe"
)

// Labels are the labels of an object: their canonical JSON, or nothing where there
// are none. In this form they are a part of the object's bytes and take no memory
// of their own, and the few that an object has are found as fast as in a map.
//
// Labels are a [k8s.io/apimachinery/pkg/labels.Labels].
type Labels string

// Lookup returns the value of a label, and whether there is one.
func (l Labels) Lookup(name string) (value string, ok bool) {
	if strings.IndexByte(string(l), '\\') >= 0 { // no label that is valid
		for k, v := range l.All() {
			if k == name {
				return v, true
			}
		}
		return "", false
	}
	for at := 1; at < len(l); at++ { // over the brace, and then the commas
		key := l.text(&at)
		at++ // the colon
		if value = l.text(&at); key >= name {
			return value, key == name
		}
	}
	return "", false
}

// text returns the string that begins at a place, and moves behind it. It is for
// strings without escapes.
func (l Labels) text(at *int) string {
	rest := string(l[min(*at+1, len(l)):])
	end := strings.IndexByte(rest, '"')
	if end < 0 {
		*at = len(l)
		return ""
	}
	*at += end + 2
	return rest[:end]
}

// Has says whether there is a label.
func (l Labels) Has(name string) bool {
	_, ok := l.Lookup(name)
	return ok
}

// Get returns the value of a label, and nothing where there is none.
func (l Labels) Get(name string) string {
	value, _ := l.Lookup(name)
	return value
}

// All walks over the labels, in the order of their names.
func (l Labels) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		s := scanner{raw: unsafe.Slice(unsafe.StringData(string(l)), len(l))}
		s.object(0, func(key []byte) bool {
			value, ok := s.string()
			return ok && yield(string(key), value)
		})
	}
}

// labelsOf makes Labels of what stands for labels in a tree. Whatever is no string
// counts as an empty one.
func labelsOf(v any) Labels {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return ""
	}
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	text := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			text = append(text, ',')
		}
		value, _ := m[name].(string)
		text = AppendString(append(AppendString(text, name), ':'), value)
	}
	return Labels(append(text, '}'))
}

// readLabels passes over labels, and takes them as they are. It returns false where one is no string.
func (m *Meta) readLabels(s *scanner) bool {
	start := s.at
	if !s.object(2, func([]byte) bool { _, ok := s.text(); return ok }) {
		return false
	}
	if len("{}") < s.at-start {
		m.Labels = Labels(alias(s.raw[start:s.at]))
	}
	return true
}

// alias returns bytes as a string without copying them. It is for parts of an
// object's bytes, which never change, and which the string keeps in memory.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
