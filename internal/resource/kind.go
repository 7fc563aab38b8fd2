package resource

import (
	"bytes"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hasKind reports whether an object in JSON has an apiVersion and kind. If it says so for valid
// JSON, json.Unmarshal would find the same, whose scan of the whole document it saves. False means
// that it is not sure.
func hasKind(data []byte, want schema.GroupVersionKind) bool {
	apiVersion, kind := want.ToAPIVersionAndKind()
	s := members{data: data}
	if !s.take('{') {
		return false
	}
	var foundVersion, foundKind bool
	for {
		key, ok := s.text()
		if !ok || !s.take(':') {
			return false
		}
		switch {
		case string(key) == "apiVersion":
			if foundVersion || !s.is(apiVersion) {
				return false
			}
			foundVersion = true
		case string(key) == "kind":
			if foundKind || !s.is(kind) {
				return false
			}
			foundKind = true
		case bytes.EqualFold(key, []byte("apiVersion")), bytes.EqualFold(key, []byte("kind")):
			return false // json.Unmarshal ignores case
		case !s.skip():
			return false
		}
		if !s.take(',') {
			return foundVersion && foundKind && s.take('}')
		}
	}
}

// members walks over the members of a JSON object. It does not validate what it passes over.
type members struct {
	data []byte
	at   int
}

// take passes over a byte and the space before it.
func (s *members) take(b byte) bool {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		case b:
			s.at++
			return true
		default:
			return false
		}
	}
	return false
}

// text passes over a string of ASCII characters without escapes, and returns it.
func (s *members) text() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	start := s.at
	for ; s.at < len(s.data); s.at++ {
		switch b := s.data[s.at]; {
		case b == '"':
			s.at++
			return s.data[start : s.at-1], true
		case b == '\\', b >= 0x80:
			return nil, false
		}
	}
	return nil, false
}

func (s *members) is(want string) bool {
	text, ok := s.text()
	return ok && string(text) == want
}

// skip passes over a value.
func (s *members) skip() bool {
	for depth := 0; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case '"':
			if !s.skipString() {
				return false
			}
			s.at--
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return true
			}
			depth--
		case ',':
			if depth == 0 {
				return true
			}
		}
	}
	return false
}

// skipString passes over a string with any content.
func (s *members) skipString() bool {
	for s.at++; s.at < len(s.data); s.at++ {
		i := bytes.IndexAny(s.data[s.at:], `"\`)
		if i < 0 {
			return false
		}
		if s.at += i; s.data[s.at] == '"' {
			s.at++
			return true
		}
		s.at++ // the character behind a backslash is part of the string
	}
	return false
}
