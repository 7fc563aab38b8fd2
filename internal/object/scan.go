package object

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// scanner walks over canonical JSON. Each method passes over the element it is named for, and
// returns false if the bytes differ from what Encode would produce for the decoded value. What the
// scanner accepts therefore needs no decoding.
type scanner struct {
	raw     []byte
	at      int
	member  int  // where the key of the latest member starts
	escaped bool // the latest text contains an escape
}

// maxScan is the maximum depth of the scanner; deeper documents are decoded.
const maxScan = 500

func (s *scanner) peek() byte {
	if s.at < len(s.raw) {
		return s.raw[s.at]
	}
	return 0
}

func (s *scanner) take(b byte) bool {
	if s.peek() != b {
		return false
	}
	s.at++
	return true
}

func (s *scanner) value(depth int) bool {
	switch s.peek() {
	case '"':
		_, ok := s.text()
		return ok
	case '{':
		return s.object(depth, func([]byte) bool { return s.value(depth + 1) })
	case '[':
		return s.list(depth, func() bool { return s.value(depth + 1) })
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

// object calls member for the value of every key. Keys must be sorted and unique.
func (s *scanner) object(depth int, member func(key []byte) bool) bool {
	if depth > maxScan || !s.take('{') {
		return false
	}
	if s.take('}') {
		return true
	}
	var last []byte
	for first := true; ; first = false {
		start := s.at
		key, ok := s.text()
		if !ok || !s.take(':') {
			return false
		}
		if s.escaped {
			key = unescape(key)
		}
		if !first && bytes.Compare(last, key) >= 0 {
			return false
		}
		last, s.member = key, start
		if !member(key) {
			return false
		}
		if !s.take(',') {
			return s.take('}')
		}
	}
}

// list calls item for every item.
func (s *scanner) list(depth int, item func() bool) bool {
	if depth > maxScan || !s.take('[') {
		return false
	}
	if s.take(']') {
		return true
	}
	for item() {
		if !s.take(',') {
			return s.take(']')
		}
	}
	return false
}

func (s *scanner) word(w string) bool {
	if len(s.raw)-s.at < len(w) || string(s.raw[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

// text passes over a string and returns the bytes between its quotes.
func (s *scanner) text() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	raw, start := s.raw, s.at
	i := start
	s.escaped = false
	for i < len(raw) {
		if len(raw)-i >= 8 {
			n := plain(binary.LittleEndian.Uint64(raw[i:]))
			if i += n; n == 8 {
				continue
			}
		}
		switch b := raw[i]; {
		case b == '"':
			s.at = i + 1
			return raw[start:i], true
		case b == '\\':
			n := escape(raw[i:])
			if n == 0 {
				return nil, false
			}
			i += n
			s.escaped = true
		case b < ' ':
			return nil, false
		case b < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRune(raw[i:])
			if r == utf8.RuneError && n == 1 {
				return nil, false
			}
			i += n
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

// escape returns the length of an escape that AppendString produces, or zero for any other.
func escape(raw []byte) int {
	if len(raw) < 2 {
		return 0
	}
	switch raw[1] {
	case '"', '\\', 'n', 'r', 't':
		return 2
	case 'u':
		if len(raw) < 6 || string(raw[2:4]) != "00" {
			return 0
		}
		b, err := strconv.ParseUint(string(raw[4:6]), 16, 8)
		if err != nil || b >= ' ' || b == '\n' || b == '\r' || b == '\t' || hex[b&15] != raw[5] {
			return 0
		}
		return 6
	}
	return 0
}

// unescape resolves the escapes in a result of text.
func unescape(text []byte) []byte {
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			plain = append(plain, text[i])
			i++
			continue
		}
		switch b := text[i+1]; b {
		case 'n':
			plain = append(plain, '\n')
		case 'r':
			plain = append(plain, '\r')
		case 't':
			plain = append(plain, '\t')
		case 'u':
			code, _ := strconv.ParseUint(string(text[i+4:i+6]), 16, 8) // escape has validated it
			plain = append(plain, byte(code))
		default:
			plain = append(plain, b)
		}
		i += escape(text[i:])
	}
	return plain
}

// number passes over an integer that fits into an int64, or another number in the format that the
// encoder writes.
func (s *scanner) number() bool {
	start := s.at
	s.take('-')
	digits := s.at
	for s.at < len(s.raw) && '0' <= s.raw[s.at] && s.raw[s.at] <= '9' {
		s.at++
	}
	n := s.at - digits
	if n == 0 || n > 1 && s.raw[digits] == '0' {
		return false
	}
	switch s.peek() {
	case '.', 'e', 'E':
		return s.float(start)
	}
	if n <= 18 {
		return s.raw[digits] != '0' || digits == start // no -0
	}
	if _, err := strconv.ParseInt(string(s.raw[start:s.at]), 10, 64); err == nil {
		return true
	}
	return s.float(start)
}

func (s *scanner) float(start int) bool {
	for s.at < len(s.raw) && bytes.IndexByte([]byte("0123456789.eE+-"), s.raw[s.at]) >= 0 {
		s.at++
	}
	text := s.raw[start:s.at]
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return false
	}
	var e encoder
	return e.float(f) == nil && bytes.Equal(e.buf, text)
}
