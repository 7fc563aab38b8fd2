package object

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
)

// document passes over a whole object and reads its metadata; splice is the position of the
// resourceVersion.
func (s *scanner) document() (meta Meta, splice int, ok bool) {
	splice = -1
	ok = s.object(0, func(key []byte) bool {
		if string(key) == "metadata" {
			return s.metadata(&meta, &splice)
		}
		return s.value(1)
	})
	return meta, splice, ok && splice >= 0 && s.at == len(s.raw)
}

func (s *scanner) metadata(meta *Meta, splice *int) bool {
	*splice = -1
	return s.object(1, func(key []byte) bool {
		if *splice < 0 && string(key) > "resourceVersion" {
			*splice = s.member
		}
		switch string(key) {
		case "resourceVersion", "selfLink":
			return false
		case "uid", "creationTimestamp", "deletionTimestamp", "labels", "finalizers", "ownerReferences":
			start := s.at
			if meta.read(string(key), s) {
				return true
			}
			s.at = start
			return s.value(2) && meta.decode(string(key), s.raw[start:s.at])
		}
		return s.value(2)
	})
}

// read passes over one field that has the expected type and reads it; decode accepts any type.
func (m *Meta) read(field string, s *scanner) bool {
	switch field {
	case "uid":
		uid, ok := s.string()
		m.UID = types.UID(uid)
		return ok
	case "creationTimestamp":
		at, ok := s.string()
		m.Created = timeOf(at)
		return ok
	case "deletionTimestamp":
		at, ok := s.string()
		m.deleting = !timeOf(at).IsZero()
		return ok
	case "labels":
		return m.readLabels(s)
	case "finalizers":
		return m.readFinalizers(s)
	default:
		return m.readOwners(s)
	}
}

func (m *Meta) decode(field string, value []byte) bool {
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return false
	}
	one := metaOf(map[string]any{field: v})
	switch field {
	case "uid":
		m.UID = one.UID
	case "creationTimestamp":
		m.Created = one.Created
	case "deletionTimestamp":
		m.deleting = one.deleting
	case "labels":
		m.Labels = one.Labels
	case "finalizers":
		m.Finalizers = one.Finalizers
	case "ownerReferences":
		m.Owners = one.Owners
	}
	return true
}

// string passes over a string and returns its value, which shares memory with the scanned bytes
// unless it contains escapes.
func (s *scanner) string() (string, bool) {
	text, ok := s.text()
	if ok && s.escaped {
		text = unescape(text)
	}
	return alias(text), ok
}

func (m *Meta) readFinalizers(s *scanner) bool {
	return s.list(2, func() bool {
		name, ok := s.string()
		m.Finalizers = append(m.Finalizers, name)
		return ok
	})
}

func (m *Meta) readOwners(s *scanner) bool {
	return s.list(2, func() bool {
		var o Owner
		ok := s.object(3, func(key []byte) (ok bool) {
			switch string(key) {
			case "apiVersion":
				o.APIVersion, ok = s.string()
			case "kind":
				o.Kind, ok = s.string()
			case "name":
				o.Name, ok = s.string()
			case "uid":
				var uid string
				uid, ok = s.string()
				o.UID = types.UID(uid)
			case "controller":
				o.Controller, ok = s.bool()
			case "blockOwnerDeletion":
				o.BlockOwnerDeletion, ok = s.bool()
			default:
				return s.value(4)
			}
			return ok
		})
		m.Owners = append(m.Owners, o)
		return ok
	})
}

func (s *scanner) bool() (value, ok bool) {
	if s.word("true") {
		return true, true
	}
	return false, s.word("false")
}
