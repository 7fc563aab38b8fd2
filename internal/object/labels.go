package object

import (
	"iter"
	"slices"
	"strings"
	"unsafe"
)

// Labels are the labels of an object: their canonical JSON, or "" if there are none. In this form
// they share the memory of the object's bytes; for the few labels that an object has, a lookup is
// as fast as in a map.
//
// Labels implements [k8s.io/apimachinery/pkg/labels.Labels].
type Labels string

// Lookup returns the value of a label, and whether the label exists.
func (l Labels) Lookup(name string) (value string, ok bool) {
	if strings.IndexByte(string(l), '\\') >= 0 { // not a valid label name
		for k, v := range l.All() {
			if k == name {
				return v, true
			}
		}
		return "", false
	}
	for at := 1; at < len(l); at++ { // skips the brace, then the commas
		key := l.text(&at)
		at++ // the colon
		switch value = l.text(&at); {
		case key == name:
			return value, true
		case key > name: // they are sorted
			return "", false
		}
	}
	return "", false
}

// text returns the string that starts at a position and advances the position behind it. The string
// must not contain escapes.
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

// Has reports whether a label exists.
func (l Labels) Has(name string) bool {
	_, ok := l.Lookup(name)
	return ok
}

// Get returns the value of a label, or "" if it does not exist.
func (l Labels) Get(name string) string {
	value, _ := l.Lookup(name)
	return value
}

// All iterates over the labels in the order of their names.
func (l Labels) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		s := scanner{raw: unsafe.Slice(unsafe.StringData(string(l)), len(l))}
		s.object(0, func(key []byte) bool {
			value, ok := s.string()
			return ok && yield(string(key), value)
		})
	}
}

// labelsOf returns the Labels of the value of metadata.labels in a tree. A value that is not a
// string counts as an empty string.
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

// readLabels scans the labels and keeps them as they are. It returns false if one of the values is
// not a string.
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

// alias returns bytes as a string without a copy. It is for parts of an object's bytes, which never
// change; the string keeps all of them in memory.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
