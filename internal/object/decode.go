package object

import (
	"bytes"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
)

// Parse makes an object of canonical JSON as a journal kept it. The bytes are
// not copied. Bytes from elsewhere (a foreign store) that are not canonical, or
// hold a resourceVersion, are encoded anew.
func Parse(key Key, raw []byte, schema uint64, written time.Time) (*Object, error) {
	at, ok := findMetadata(raw)
	if !ok {
		return reencode(key, raw, schema, written)
	}
	meta, splice, ok := scanMetadata(raw, at)
	if !ok {
		return reencode(key, raw, schema, written)
	}
	return &Object{Key: key, Written: written, Schema: schema, Raw: raw, Meta: meta, splice: splice}, nil
}

func reencode(key Key, raw []byte, schema uint64, written time.Time) (*Object, error) {
	tree, err := DecodeTree(raw)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", key, err)
	}
	return New(key, tree, schema, written)
}

// Tree decodes the object into a tree of its own, without resourceVersion.
func (o *Object) Tree() (map[string]any, error) {
	tree, err := DecodeTree(o.Raw)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", o.Key, err)
	}
	return tree, nil
}

// DecodeTree decodes JSON that the server has written itself. Integers become
// int64 where they fit, all other numbers float64.
func DecodeTree(raw []byte) (map[string]any, error) {
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, err
	}
	return tree, nil
}

// scanner walks over canonical JSON without decoding it.
type scanner struct {
	raw []byte
	at  int
}

// findMetadata returns where the value of the root's metadata starts.
func findMetadata(raw []byte) (int, bool) {
	s := scanner{raw: raw}
	if !s.take('{') {
		return 0, false
	}
	for {
		key, ok := s.key()
		if !ok {
			return 0, false
		}
		if string(key) == `"metadata"` {
			return s.at, true
		}
		if !s.skip() || !s.take(',') {
			return 0, false
		}
	}
}

// scanMetadata decodes the metadata at the given place, but for its
// managedFields and annotations, which can be large and which nobody asks for.
func scanMetadata(raw []byte, at int) (Meta, int, bool) {
	s := scanner{raw: raw, at: at}
	splice := -1
	if !s.take('{') {
		return Meta{}, 0, false
	}
	picked := map[string]any{}
	for {
		start := s.at
		key, ok := s.key()
		if !ok {
			return Meta{}, 0, false
		}
		name := string(key[1 : len(key)-1])
		if name == "resourceVersion" || name == "selfLink" {
			return Meta{}, 0, false
		}
		if splice < 0 && name > "resourceVersion" {
			splice = start
		}
		value := s.at
		if !s.skip() {
			return Meta{}, 0, false
		}
		switch name {
		case "uid", "creationTimestamp", "deletionTimestamp", "labels", "finalizers", "ownerReferences":
			var v any
			if err := json.Unmarshal(raw[value:s.at], &v); err != nil {
				return Meta{}, 0, false
			}
			picked[name] = v
		}
		if s.take('}') {
			break
		}
		if !s.take(',') {
			return Meta{}, 0, false
		}
	}
	if splice < 0 {
		return Meta{}, 0, false
	}
	return metaOf(picked), splice, true
}

func (s *scanner) take(b byte) bool {
	if s.at < len(s.raw) && s.raw[s.at] == b {
		s.at++
		return true
	}
	return false
}

// key reads a member's key with its quotes, and the colon behind it.
func (s *scanner) key() ([]byte, bool) {
	start := s.at
	if s.at >= len(s.raw) || s.raw[s.at] != '"' || !s.skipString() {
		return nil, false
	}
	key := s.raw[start:s.at]
	return key, s.take(':')
}

func (s *scanner) skipString() bool {
	s.at++
	for {
		i := bytes.IndexByte(s.raw[s.at:], '"')
		if i < 0 {
			return false
		}
		s.at += i + 1
		slashes := 0
		for j := s.at - 2; s.raw[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return true
		}
	}
}

// skip passes over one value.
func (s *scanner) skip() bool {
	depth := 0
	for s.at < len(s.raw) {
		switch s.raw[s.at] {
		case '"':
			if !s.skipString() {
				return false
			}
		case '{', '[':
			depth++
			s.at++
			continue
		case '}', ']':
			depth--
			s.at++
		case ',', ':', ' ', '\n', '\t', '\r':
			s.at++
			continue
		default: // a number, true, false, null
			for s.at < len(s.raw) && !bytes.ContainsRune([]byte(",]} \n"), rune(s.raw[s.at])) {
				s.at++
			}
		}
		if depth == 0 {
			return true
		}
		if depth < 0 {
			return false
		}
	}
	return false
}
