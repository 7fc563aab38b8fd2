package typed

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// A reader reads JSON text. Its methods pass over the element that they are named for, with the
// space before it, and report whether they could: they do not support all of JSON, see FromJSON.
type reader struct {
	data   []byte
	at     int
	depth  int
	shares bool // strings share memory with data
	strict bool // structs must have all keys

	// The open maps and lists of a tree, innermost last, as their sizes are known at their end
	// only.
	keys   []string
	values []any

	boxes encoder
}

// deepest is the depth of the values that readers support.
const deepest = 500

// next returns the first byte of the next element, 0 at the end.
func (r *reader) next() byte {
	for r.at < len(r.data) {
		switch b := r.data[r.at]; b {
		case ' ', '\n', '\t', '\r':
			r.at++
		default:
			return b
		}
	}
	return 0
}

func (r *reader) take(b byte) bool {
	if r.next() != b {
		return false
	}
	r.at++
	return true
}

func (r *reader) word(w string) bool {
	if len(r.data)-r.at < len(w) || string(r.data[r.at:r.at+len(w)]) != w {
		return false
	}
	r.at += len(w)
	return true
}

// null passes over a null. If the next element is another one, it stays.
func (r *reader) null() bool { return r.next() == 'n' && r.word("null") }

// end reports whether there is only space left.
func (r *reader) end() bool {
	r.next()
	return r.at == len(r.data)
}

// object calls member with each key of an object, to pass over the value. The key is valid until
// member passes over another string.
func (r *reader) object(member func(key []byte) bool) bool {
	return r.sequence('{', '}', func() bool {
		key, ok := r.text()
		return ok && r.take(':') && member(key)
	})
}

// list calls item for each item of a list, to pass over it.
func (r *reader) list(item func() bool) bool { return r.sequence('[', ']', item) }

func (r *reader) sequence(begin, end byte, element func() bool) bool {
	if r.depth == deepest || !r.take(begin) {
		return false
	}
	if r.take(end) {
		return true
	}
	r.depth++
	for element() {
		if r.take(',') {
			continue
		}
		r.depth--
		return r.take(end)
	}
	return false
}

// text passes over a string, and returns its value: a part of the data, or, if there are escapes,
// memory of its own.
func (r *reader) text() ([]byte, bool) {
	if !r.take('"') {
		return nil, false
	}
	start, ascii := r.at, true
	for i := start; i < len(r.data); {
		if len(r.data)-i >= 8 {
			n := plain(binary.LittleEndian.Uint64(r.data[i:]))
			if i += n; n == 8 {
				continue
			}
		}
		switch b := r.data[i]; {
		case b == '"':
			r.at = i + 1
			text := r.data[start:i]
			return text, ascii || utf8.Valid(text)
		case b == '\\':
			return r.escaped(start)
		case b < ' ':
			return nil, false
		case b >= utf8.RuneSelf:
			ascii = false
			i++
		default:
			i++
		}
	}
	return nil, false
}

// plain returns how many of eight bytes, counted from the first, neither end a string nor start an
// escape, and are neither control characters nor parts of multi-byte runes.
func plain(x uint64) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	// The result has the high bit set in each byte that is below n. A borrow may also set it in the
	// bytes behind, which does not matter: only the first set bit counts.
	below := func(x uint64, n uint64) uint64 { return (x - ones*n) &^ x }
	special := (x | below(x, ' ') | below(x^(ones*'"'), 1) | below(x^(ones*'\\'), 1)) & high
	return bits.TrailingZeros64(special) / 8
}

// escaped passes over the rest of a string that starts at start.
func (r *reader) escaped(start int) ([]byte, bool) {
	var text []byte
	for i := start; i < len(r.data); {
		switch b := r.data[i]; {
		case b == '"':
			r.at = i + 1
			return text, utf8.Valid(text)
		case b < ' ':
			return nil, false
		case b != '\\':
			text = append(text, b)
			i++
		default:
			c, size, ok := unescape(r.data[i:])
			if !ok {
				return nil, false
			}
			text = utf8.AppendRune(text, c)
			i += size
		}
	}
	return nil, false
}

// escapes has what may follow a backslash, each before what it stands for.
const escapes = "\"\"\\\\//b\bf\fn\nr\rt\t"

// unescape returns the character of the escape that text starts with, and its length. Surrogates
// are not supported.
func unescape(text []byte) (c rune, size int, ok bool) {
	if len(text) < 2 {
		return 0, 0, false
	}
	if text[1] != 'u' {
		for i := 0; i < len(escapes); i += 2 {
			if escapes[i] == text[1] {
				return rune(escapes[i+1]), 2, true
			}
		}
		return 0, 0, false
	}
	if len(text) < 6 {
		return 0, 0, false
	}
	code, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(code), 6, err == nil && utf8.ValidRune(rune(code))
}

// string passes over a string.
func (r *reader) string() (string, bool) {
	text, ok := r.text()
	return r.own(text), ok
}

// own returns a string with a result of text.
func (r *reader) own(text []byte) string {
	if r.shares {
		return unsafe.String(unsafe.SliceData(text), len(text))
	}
	return string(text)
}

// number passes over a number. It is an integer if it has neither a fraction nor an exponent.
func (r *reader) number() (text []byte, integer, ok bool) {
	r.next()
	start := r.at
	if r.peek() == '-' {
		r.at++
	}
	zero := r.peek() == '0'
	if n := r.digits(); n == 0 || zero && n > 1 {
		return nil, false, false
	}
	integer = true
	if r.peek() == '.' {
		r.at++
		if integer = false; r.digits() == 0 {
			return nil, false, false
		}
	}
	if b := r.peek(); b == 'e' || b == 'E' {
		r.at++
		if b = r.peek(); b == '+' || b == '-' {
			r.at++
		}
		if integer = false; r.digits() == 0 {
			return nil, false, false
		}
	}
	return r.data[start:r.at], integer, true
}

func (r *reader) peek() byte {
	if r.at < len(r.data) {
		return r.data[r.at]
	}
	return 0
}

// digits passes over digits, and returns their number.
func (r *reader) digits() int {
	start := r.at
	for b := r.peek(); '0' <= b && b <= '9'; b = r.peek() {
		r.at++
	}
	return r.at - start
}

// skip passes over any value, and returns its text.
func (r *reader) skip() ([]byte, bool) {
	b, start, ok := r.next(), r.at, false
	switch b {
	case '"':
		_, ok = r.text()
	case '{':
		ok = r.object(func([]byte) bool {
			_, ok := r.skip()
			return ok
		})
	case '[':
		ok = r.list(func() bool {
			_, ok := r.skip()
			return ok
		})
	case 't':
		ok = r.word("true")
	case 'f':
		ok = r.word("false")
	case 'n':
		ok = r.word("null")
	default:
		_, _, ok = r.number()
	}
	return r.data[start:r.at], ok
}

// tree passes over any value, and returns its tree. Keys must be unique.
func (r *reader) tree() (any, bool) {
	switch r.next() {
	case '"':
		s, ok := r.string()
		return r.boxes.text(s), ok
	case '{':
		return r.treeOfObject()
	case '[':
		return r.treeOfList()
	case 't':
		return true, r.word("true")
	case 'f':
		return false, r.word("false")
	case 'n':
		return nil, r.word("null")
	}
	text, integer, ok := r.number()
	if !ok {
		return nil, false
	}
	if integer {
		if i, err := parseInt(text, 64); err == nil {
			return i, true
		}
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return f, err == nil
}

func (r *reader) treeOfObject() (any, bool) {
	keys, values := len(r.keys), len(r.values)
	ok := r.object(func(text []byte) bool {
		key := r.own(text)
		v, ok := r.tree()
		r.keys, r.values = append(r.keys, key), append(r.values, v)
		return ok
	})
	m := make(map[string]any, len(r.keys)-keys)
	for i, key := range r.keys[keys:] {
		m[key] = r.values[values+i]
	}
	ok = ok && len(m) == len(r.keys)-keys
	r.keys = r.keys[:keys]
	clear(r.values[values:])
	r.values = r.values[:values]
	return m, ok
}

func (r *reader) treeOfList() (any, bool) {
	values := len(r.values)
	ok := r.list(func() bool {
		v, ok := r.tree()
		r.values = append(r.values, v)
		return ok
	})
	list := make([]any, len(r.values)-values)
	copy(list, r.values[values:])
	clear(r.values[values:])
	r.values = r.values[:values]
	return r.boxes.list(list), ok
}

// parseInt parses an integer of a number of bits.
func parseInt(text []byte, size int) (int64, error) {
	return strconv.ParseInt(unsafe.String(unsafe.SliceData(text), len(text)), 10, size)
}
