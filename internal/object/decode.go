package object

import (
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/client/typed"
)

// Parse returns the object that JSON from a journal stands for. Canonical bytes are kept without a
// copy, so the caller must not change raw after the call. Bytes that are not canonical (as a
// foreign store writes them) or that hold a resourceVersion are decoded and encoded again.
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

// Tree decodes the object into a new tree, which the caller owns. It has no resourceVersion. Its
// strings share memory with the object: a caller that keeps some of them longer than the object is
// current clones them, or decodes Raw by package typed.
func (o *Object) Tree() (map[string]any, error) {
	tree, err := DecodeTree(o.Raw)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", o.Key, err)
	}
	return tree, nil
}

// DecodeTree decodes JSON that the server encoded. Integers that fit become int64, all other
// numbers float64. The tree's strings share memory with raw, which must not change.
func DecodeTree(raw []byte) (map[string]any, error) { return typed.SharedTree(raw) }
