package object

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// New encodes a tree of JSON values as an object. It does not modify the tree;
// metadata.resourceVersion and metadata.selfLink are not stored.
//
// A tree consists of map[string]any, []any, string, bool, int64, float64 and nil, as in
// [k8s.io/apimachinery/pkg/apis/meta/v1/unstructured].
func New(key Key, tree map[string]any, schema uint64, written time.Time) (*Object, error) {
	form, start, err := encodeAt(tree)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", key, err)
	}
	// The process has few namespaces, and this one is often a substring of a longer string, such as
	// a URL, which it would keep in memory.
	key.Namespace = unique.Make(key.Namespace).Value()
	o := &Object{Key: key, Written: written, Schema: schema, Raw: form.Bytes, splice: int32(form.Splice)}
	var splice int
	if s := (scanner{raw: o.Raw, at: start}); !s.metadata(&o.Meta, &splice) { // it is nested too deeply
		metadata, _ := tree["metadata"].(map[string]any)
		o.Meta = metaOf(metadata)
	}
	return o, nil
}

var errNoMetadata = errors.New("object has no metadata")

// Encode returns the canonical JSON of a tree as a form, with the position of the resourceVersion.
func Encode(tree map[string]any) (Form, error) {
	form, _, err := encodeAt(tree)
	return form, err
}

// encodeAt also returns where the value of metadata starts.
func encodeAt(tree map[string]any) (form Form, metadata int, err error) {
	e := encoders.Get().(*encoder)
	defer e.free()
	e.splice = -1
	if err := e.root(tree); err != nil {
		return Form{}, 0, err
	}
	if e.splice < 0 {
		return Form{}, 0, errNoMetadata
	}
	return Form{Bytes: bytes.Clone(e.buf), Splice: e.splice}, e.start, nil // the form lives long: no spare capacity
}

// encoders keeps encoders for the next object. What they allocate would be a tenth of a write.
var encoders = sync.Pool{New: func() any { return &encoder{buf: make([]byte, 0, 4096)} }}

// maxRoom is the size of the largest buffer that is kept.
const maxRoom = 64 << 10

func (e *encoder) free() {
	if cap(e.buf) > maxRoom {
		return
	}
	clear(e.keys[:cap(e.keys)]) // they share memory with a tree
	e.buf, e.keys = e.buf[:0], e.keys[:0]
	encoders.Put(e)
}

// AppendJSON appends the canonical JSON of any JSON value to dst.
func AppendJSON(dst []byte, v any) ([]byte, error) {
	e := encoder{buf: dst}
	err := e.value(v, 0)
	return e.buf, err
}

type encoder struct {
	buf    []byte
	splice int
	start  int      // of the root metadata
	keys   []string // of the maps that are open, innermost last
}

func (e *encoder) root(tree map[string]any) error {
	return e.object(tree, 0, func(k string, v any) error {
		if m, ok := v.(map[string]any); ok && k == "metadata" {
			return e.metadata(m)
		}
		return e.value(v, 1)
	})
}

// metadata encodes the root metadata. Keys are sorted, so the resourceVersion
// goes in front of the first key that sorts after it.
func (e *encoder) metadata(m map[string]any) error {
	e.start = len(e.buf)
	e.buf = append(e.buf, '{')
	first := len(e.keys)
	for k := range m {
		if k != "resourceVersion" && k != "selfLink" {
			e.keys = append(e.keys, k)
		}
	}
	keys := e.keys[first:]
	slices.Sort(keys)
	for i, k := range keys {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		if e.splice < 0 && k > "resourceVersion" {
			e.splice = len(e.buf)
		}
		e.buf = AppendString(e.buf, k)
		e.buf = append(e.buf, ':')
		if err := e.value(m[k], 2); err != nil {
			return err
		}
	}
	e.keys = e.keys[:first]
	if e.splice < 0 { // every key sorts before resourceVersion: an object without uid
		if len(keys) > 0 {
			return errors.New("metadata has no uid")
		}
		e.splice = len(e.buf)
	}
	e.buf = append(e.buf, '}')
	return nil
}

// MaxDepth is the maximum depth of the values of an object, the same limit as in encoding/json.
const MaxDepth = 10000

var errDepth = errors.New("exceeded max depth")

func (e *encoder) object(m map[string]any, depth int, member func(string, any) error) error {
	e.buf = append(e.buf, '{')
	first := len(e.keys)
	for k := range m {
		e.keys = append(e.keys, k)
	}
	keys := e.keys[first:]
	slices.Sort(keys)
	for i, k := range keys {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.buf = AppendString(e.buf, k)
		e.buf = append(e.buf, ':')
		var err error
		if member != nil {
			err = member(k, m[k])
		} else {
			err = e.value(m[k], depth+1)
		}
		if err != nil {
			return err
		}
	}
	e.keys = e.keys[:first]
	e.buf = append(e.buf, '}')
	return nil
}

func (e *encoder) value(v any, depth int) error {
	switch v := v.(type) {
	case nil:
		e.buf = append(e.buf, "null"...)
	case string:
		e.buf = AppendString(e.buf, v)
	case bool:
		e.buf = strconv.AppendBool(e.buf, v)
	case int64:
		e.buf = strconv.AppendInt(e.buf, v, 10)
	case int:
		e.buf = strconv.AppendInt(e.buf, int64(v), 10)
	case float64:
		return e.float(v)
	case map[string]any:
		if depth >= MaxDepth {
			return errDepth
		}
		return e.object(v, depth, nil)
	case []any:
		if depth >= MaxDepth {
			return errDepth
		}
		e.buf = append(e.buf, '[')
		for i, item := range v {
			if i > 0 {
				e.buf = append(e.buf, ',')
			}
			if err := e.value(item, depth+1); err != nil {
				return err
			}
		}
		e.buf = append(e.buf, ']')
	default:
		return fmt.Errorf("not a JSON value: %T", v)
	}
	return nil
}

// float writes a number as encoding/json does (ES6): 1.0 becomes 1.
func (e *encoder) float(f float64) error {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return fmt.Errorf("unsupported number %v", f)
	}
	if f == 0 {
		f = 0 // without the sign: -0 would be decoded as an integer
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	e.buf = strconv.AppendFloat(e.buf, f, format, -1, 64)
	if n := len(e.buf); format == 'e' && n >= 4 && e.buf[n-4] == 'e' && e.buf[n-3] == '-' && e.buf[n-2] == '0' {
		e.buf[n-2] = e.buf[n-1]
		e.buf = e.buf[:n-1]
	}
	return nil
}

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b < utf8.RuneSelf {
			if b >= ' ' && b != '"' && b != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch b {
			case '"', '\\':
				dst = append(dst, '\\', b)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\uFFFD"...)
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func metaOf(m map[string]any) Meta {
	var meta Meta
	uid, _ := m["uid"].(string)
	meta.UID = types.UID(uid)
	created, _ := m["creationTimestamp"].(string)
	meta.Created = timeOf(created)
	deleted, _ := m["deletionTimestamp"].(string)
	meta.deleting = !timeOf(deleted).IsZero()
	meta.Labels = labelsOf(m["labels"])
	if finalizers, ok := m["finalizers"].([]any); ok {
		for _, f := range finalizers {
			if s, ok := f.(string); ok {
				meta.Finalizers = append(meta.Finalizers, s)
			}
		}
	}
	if owners, ok := m["ownerReferences"].([]any); ok {
		for _, r := range owners {
			if ref, ok := r.(map[string]any); ok {
				meta.Owners = append(meta.Owners, ownerOf(ref))
			}
		}
	}
	return meta
}

func ownerOf(ref map[string]any) Owner {
	var o Owner
	var uid string
	o.APIVersion, _ = ref["apiVersion"].(string)
	o.Kind, _ = ref["kind"].(string)
	o.Name, _ = ref["name"].(string)
	uid, _ = ref["uid"].(string)
	o.UID = types.UID(uid)
	o.Controller, _ = ref["controller"].(bool)
	o.BlockOwnerDeletion, _ = ref["blockOwnerDeletion"].(bool)
	return o
}

// timeOf parses an RFC 3339 time. It returns the zero time if s is not valid.
func timeOf(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t
}
