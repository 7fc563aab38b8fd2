package object

import "strconv"

// A Media is the media type of a Form.
type Media uint8

// The media types in which an object is served.
const (
	JSON Media = iota
	Protobuf
	PartialJSON     // PartialObjectMetadata
	PartialProtobuf // PartialObjectMetadata
	Fields          // the values of the selectable fields, used by the server only
)

// FormKey identifies a form of an object: the schema and version it is served with, and the media
// type. Schema is the fingerprint of the compiled schema.
type FormKey struct {
	Schema  uint64
	Version string
	Media   Media
}

// A Form is the bytes of an object as clients receive them, without the resourceVersion, which
// AppendTo inserts at Splice. With a negative Splice the bytes are complete.
type Form struct {
	Bytes  []byte
	Splice int
}

type form struct {
	key  FormKey
	form Form
	next *form
}

// Stored returns the form of the object in its storage version as it is stored.
func (o *Object) Stored() Form { return Form{Bytes: o.Raw, Splice: int(o.splice)} }

// Form returns the form for key. On first use it calls make and caches the result. Two concurrent
// callers may both call make; one result is kept.
func (o *Object) Form(key FormKey, make func(*Object) (Form, error)) (Form, error) {
	for f := o.forms.Load(); f != nil; f = f.next {
		if f.key == key {
			return f.form, nil
		}
	}
	made, err := make(o)
	if err != nil {
		return Form{}, err
	}
	for {
		have := o.forms.Load()
		if o.forms.CompareAndSwap(have, &form{key: key, form: made, next: have.without(key)}) {
			return made, nil
		}
	}
}

// without returns the list without the form that a form for key replaces: the one of the same
// version and media type that was made with another schema.
func (f *form) without(key FormKey) *form {
	if f == nil {
		return nil
	}
	rest := f.next.without(key)
	if f.key.Version == key.Version && f.key.Media == key.Media {
		return rest
	}
	return &form{key: f.key, form: f.form, next: rest}
}

const resourceVersionKey = `"resourceVersion":"`

// AppendTo appends the form to dst, with rev as its resourceVersion.
func (f Form) AppendTo(dst []byte, rev Revision) []byte {
	if f.Splice < 0 {
		return append(dst, f.Bytes...)
	}
	dst = append(dst, f.Bytes[:f.Splice]...)
	dst = append(dst, resourceVersionKey...)
	dst = strconv.AppendInt(dst, int64(rev), 10)
	dst = append(dst, '"')
	if f.Splice < len(f.Bytes) && f.Bytes[f.Splice] != '}' {
		dst = append(dst, ',')
	}
	return append(dst, f.Bytes[f.Splice:]...)
}

// Len returns an upper bound of the number of bytes that AppendTo appends.
func (f Form) Len() int { return len(f.Bytes) + len(resourceVersionKey) + 22 }
