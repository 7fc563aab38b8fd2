package object

import "strconv"

// A Media is what the bytes of a Form are.
type Media uint8

// The media types in which an object is served.
const (
	JSON Media = iota
	Protobuf
	PartialJSON     // PartialObjectMetadata
	PartialProtobuf // PartialObjectMetadata
	Fields          // the values of the fields by which objects are selected, for the server itself
)

// FormKey names a form of an object: the schema and version it is served with
// and the media type. Schema is the fingerprint of the compiled schema.
type FormKey struct {
	Schema  uint64
	Version string
	Media   Media
}

// A Form is the bytes of an object as clients get them, but for the
// resourceVersion, which goes in at Splice. A negative Splice says that the
// bytes are complete.
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

// Form returns the form under key, and makes and keeps it on first use. Two
// callers may both make it; one result is kept.
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

// without returns the forms but for those that one under key takes the place of:
// of the same version and media type, made with an older schema.
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

// AppendTo appends the form to dst with the resourceVersion of rev in its place.
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

// Len is the number of bytes that AppendTo appends, at most.
func (f Form) Len() int { return len(f.Bytes) + len(resourceVersionKey) + 22 }
