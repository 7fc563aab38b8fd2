package jsonpatch

import (
	"bytes"
	"encoding/json"
	"sort"
	"unicode/utf8"
)

// A text is valid JSON that nodes refer to.
type text struct {
	data  []byte
	spans []span // of all objects and lists, ordered by start; set when a node is first opened
}

// A span is the start and the end of an object or a list. Opening a value needs the ends of the
// values in it. Scanning for them at each level would make the cost of a deep document quadratic in
// its depth; the spans are computed in one pass.
type span struct{ from, to int }

func newText(data []byte) (*text, error) {
	if !json.Valid(data) {
		var v json.RawMessage
		return nil, json.Unmarshal(data, &v)
	}
	return &text{data: data}, nil
}

// root returns the whole text as a node.
func (t *text) root() *node {
	from := t.pastSpace(0)
	return &node{text: t, from: from, to: len(bytes.TrimRight(t.data, " \t\r\n"))}
}

// open parses the members of the object or the items of the list that starts at from. It returns
// nil for other values. A null opens as a nil object.
func (t *text) open(from int) container {
	switch t.data[from] {
	case 'n':
		return object(nil)
	case '{':
		o := object{}
		for at, more := t.next(from + 1); more; {
			end := t.pastString(at)
			key := unquote(t.data[at:end])
			var n *node
			n, at = t.node(t.pastSpace(t.pastSpace(end) + 1)) // past the colon
			o[key] = n
			at, more = t.next(at)
		}
		return o
	case '[':
		l := &list{}
		for at, more := t.next(from + 1); more; {
			var n *node
			n, at = t.node(at)
			l.insert(l.length, n)
			at, more = t.next(at)
		}
		return l
	}
	return nil
}

// next returns where the next member or item behind at starts, or false if the object or list ends
// there.
func (t *text) next(at int) (int, bool) {
	at = t.pastSpace(at)
	if t.data[at] == ',' {
		return t.pastSpace(at + 1), true
	}
	return at, t.data[at] != '}' && t.data[at] != ']'
}

// node returns the value that starts at from, and the position behind its end.
func (t *text) node(from int) (*node, int) {
	end := from
	switch t.data[from] {
	case 'n':
		return nil, from + len("null")
	case '"':
		end = t.pastString(from)
	case '{', '[':
		end = t.pastContainer(from)
	default:
		for end < len(t.data) && bytes.IndexByte([]byte(" \t\r\n,]}"), t.data[end]) < 0 {
			end++
		}
	}
	return &node{text: t, from: from, to: end}, end
}

func (t *text) pastSpace(at int) int {
	for at < len(t.data) && isSpace(t.data[at]) {
		at++
	}
	return at
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }

func (t *text) pastString(at int) int {
	for at++; t.data[at] != '"'; at++ {
		if t.data[at] == '\\' {
			at++
		}
	}
	return at + 1
}

func (t *text) pastContainer(at int) int {
	if t.spans == nil {
		t.measure()
	}
	return t.spans[sort.Search(len(t.spans), func(i int) bool { return t.spans[i].from >= at })].to
}

func (t *text) measure() {
	var open []int // the spans that have not ended
	for at := 0; at < len(t.data); at++ {
		switch t.data[at] {
		case '"':
			at = t.pastString(at) - 1
		case '{', '[':
			open = append(open, len(t.spans))
			t.spans = append(t.spans, span{from: at})
		case '}', ']':
			last := len(open) - 1
			t.spans[open[last]].to = at + 1
			open = open[:last]
		}
	}
}

// unquote decodes a JSON string.
func unquote(quoted []byte) string {
	if raw := quoted[1 : len(quoted)-1]; bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw)
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // the string is valid JSON
	return s
}

const hex = "0123456789abcdef"

// appendCompact appends valid JSON without insignificant space, and escapes the characters that
// encoding/json escapes for HTML and JavaScript. depth is the number of objects and lists around
// src.
func appendCompact(dst, src []byte, depth int) ([]byte, error) {
	start, inString := 0, false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case c == '"':
			inString = !inString
		case !inString:
			switch {
			case isSpace(c):
				dst = append(dst, src[start:i]...)
				start = i + 1
			case c == '{' || c == '[':
				if depth++; depth > maxDepth {
					return nil, errDepth
				}
			case c == '}' || c == ']':
				depth--
			}
		case c == '\\':
			i++
		case c == '<' || c == '>' || c == '&':
			dst = append(dst, src[start:i]...)
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			start = i + 1
		case c == 0xE2 && i+2 < len(src) && src[i+1] == 0x80 && src[i+2]&^1 == 0xA8: // U+2028 and U+2029
			dst = append(dst, src[start:i]...)
			dst = append(dst, '\\', 'u', '2', '0', '2', hex[src[i+2]&15])
			start = i + 3
			i += 2
		}
	}
	return append(dst, src[start:]...), nil
}
