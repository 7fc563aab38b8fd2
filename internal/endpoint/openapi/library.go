package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
)

// library makes documents and caches the most recently used ones.
type library struct {
	making *sync.Mutex // one document at a time: making it takes much memory
	shelf  *shelf
}

func newLibrary() library {
	return library{making: new(sync.Mutex), shelf: newShelf(16 << 20)}
}

// v3 is the OpenAPI v3 document of the part.
func (l *library) v3(p *part, protobuf bool) ([]byte, error) {
	if !protobuf {
		return l.get("v3 "+p.name, p.hash, p.documentV3)
	}
	return l.get("v3 protobuf "+p.name, p.hash, func() ([]byte, error) {
		document, err := p.documentV3()
		if err != nil {
			return nil, err
		}
		parsed, err := openapi_v3.ParseDocument(document)
		if err != nil {
			return nil, fmt.Errorf("document of %s: %w", p.name, err)
		}
		return proto.Marshal(parsed)
	})
}

// v2 is the OpenAPI v2 document of the whole server.
func (l *library) v2(s *Snapshot, protobuf bool) ([]byte, error) {
	parts, hash := s.index()
	if protobuf {
		return l.get("v2 protobuf", hash, func() ([]byte, error) {
			message, err := l.protoV2(s.Version, parts)
			if err != nil || len(s.Foreign) == 0 {
				return message, err
			}
			f, _, err := s.jsonV2(parts)
			if err != nil {
				return nil, err
			}
			rest, err := f.protoV2(s.Version)
			return append(message, rest...), err
		})
	}
	return l.get("v2", hash, func() ([]byte, error) {
		_, document, err := s.jsonV2(parts)
		return document, err
	})
}

// jsonV2 is the OpenAPI v2 document with the contributions of other servers; nil without any.
func (s *Snapshot) jsonV2(parts map[string]*part) (*fragment, []byte, error) {
	var fragments []*fragment
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		f, err := parts[name].fragmentV2()
		if err != nil {
			return nil, nil, err
		}
		fragments = append(fragments, f)
	}
	document, err := documentV2(s.Version, fragments)
	if err != nil || len(s.Foreign) == 0 {
		return nil, document, err
	}
	return withForeign(document, s.Foreign)
}

// protoV2 concatenates protobuf messages, which merges them: first the paths and schemas of every
// part, then what they share. Only messages that have changed are made again.
func (l *library) protoV2(version string, parts map[string]*part) ([]byte, error) {
	var message []byte
	shared := newFragment()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		own, f, err := l.protoPartV2(version, parts[name])
		if err != nil {
			return nil, fmt.Errorf("part %s: %w", name, err)
		}
		message = append(message, own...)
		shared = merge([]*fragment{shared, {parameters: f.parameters, definitions: f.definitions}})
	}
	hash := fmt.Sprint(version, definitionsHash(), shared.definitions, slices.Sorted(maps.Keys(shared.parameters)))
	rest, err := l.shelf.get("v2 shared", hash, func() ([]byte, error) {
		schemas, err := (&part{}).schemas(dialectTwo, shared.definitions)
		if err != nil {
			return nil, err
		}
		return encodeProtoV2(version, map[string]json.RawMessage{
			"paths": encodeRaw(nil), "definitions": encodeRaw(schemas), "parameters": encodeRaw(shared.parameters),
		})
	})
	return append(message, rest...), err
}

// protoPartV2 returns the message of the part, and what the part shares with others.
func (l *library) protoPartV2(version string, p *part) ([]byte, *fragment, error) {
	if own, ok := l.shelf.find("v2 part "+p.name, p.hash); ok {
		f, err := p.sharedV2()
		return own, f, err
	}
	f, err := p.fragmentV2()
	if err != nil {
		return nil, nil, err
	}
	own, err := l.shelf.get("v2 part "+p.name, p.hash, func() ([]byte, error) {
		return f.protoV2(version)
	})
	return own, f, err
}

// encodeProtoV2 encodes a document with the given members and the common frame.
func encodeProtoV2(version string, members map[string]json.RawMessage) ([]byte, error) {
	for key, value := range frame(version) {
		// Every message may repeat fields that are replaced in a merge, but none that are
		// concatenated.
		if key == "swagger" || key == "info" || members["parameters"] != nil {
			raw, err := encode(value)
			if err != nil {
				return nil, err
			}
			members[key] = raw
		}
	}
	parsed, err := openapi_v2.ParseDocument(encodeRaw(members))
	if err != nil {
		return nil, err
	}
	return proto.Marshal(parsed)
}

func (l *library) get(name, hash string, make func() ([]byte, error)) ([]byte, error) {
	if found, ok := l.shelf.find(name, hash); ok {
		return found, nil
	}
	l.making.Lock()
	defer l.making.Unlock()
	return l.shelf.get(name, hash, make)
}
