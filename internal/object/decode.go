package object

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
)

// Parse makes an object of JSON that a journal kept. The bytes are not copied if
// they are canonical, and must not change from then on; if they are not (they come from a foreign store), or if they hold a
// resourceVersion, the object is encoded anew.
func Parse(key Key, raw []byte, schema uint64, written time.Time) (*Object, error) {
	s := scanner{raw: raw}
	meta, splice, ok := s.document()
	if !ok {
		return reencode(key, raw, schema, written)
	}
	return &Object{Key: key, Written: written, Schema: schema, Raw: raw, Meta: meta, splice: int32(splice)}, nil
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
