package schema

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// digest hashes the content of a program. Every value is written with its length or a fixed width,
// and every list with its length, so that different schemas are different sequences of bytes.
type digest struct {
	hash hash.Hash
	buf  []byte
}

func newDigest() *digest { return &digest{hash: sha256.New(), buf: make([]byte, 0, 512)} }

func (d *digest) sum() uint64 {
	d.hash.Write(d.buf)
	d.buf = d.buf[:0]
	return binary.BigEndian.Uint64(d.hash.Sum(nil))
}

func (d *digest) count(n int) {
	d.buf = binary.AppendUvarint(d.buf, uint64(n))
	if len(d.buf) > 400 {
		d.hash.Write(d.buf)
		d.buf = d.buf[:0]
	}
}

func (d *digest) text(s string) {
	d.count(len(s))
	d.buf = append(d.buf, s...)
}

func (d *digest) texts(list []string) {
	d.count(len(list))
	for _, s := range list {
		d.text(s)
	}
}

func (d *digest) flag(b bool) {
	if b {
		d.count(1)
	} else {
		d.count(0)
	}
}

func (d *digest) optText(s *string) {
	d.flag(s != nil)
	if s != nil {
		d.text(*s)
	}
}

func (d *digest) optInt(i *int64) {
	d.flag(i != nil)
	if i != nil {
		d.buf = binary.AppendVarint(d.buf, *i)
	}
}

func (d *digest) optFloat(f *float64) {
	d.flag(f != nil)
	if f != nil {
		d.buf = binary.BigEndian.AppendUint64(d.buf, math.Float64bits(*f))
	}
}

// node writes the content of s itself. The compiler writes the schemas below it, in its order.
func (d *digest) node(s *apiextensionsv1.JSONSchemaProps) {
	d.text(s.Type)
	d.text(s.Format)
	d.text(s.Pattern)
	for _, b := range []bool{
		s.Nullable, s.XEmbeddedResource, s.XIntOrString, s.XPreserveUnknownFields != nil, s.UniqueItems, s.ExclusiveMaximum,
		s.ExclusiveMinimum, s.AdditionalProperties != nil, s.Items != nil && s.Items.Schema != nil, s.Not != nil, s.Default != nil,
	} {
		d.flag(b)
	}
	for _, i := range []*int64{s.MaxLength, s.MinLength, s.MaxItems, s.MinItems, s.MaxProperties, s.MinProperties} {
		d.optInt(i)
	}
	for _, f := range []*float64{s.Maximum, s.Minimum, s.MultipleOf} {
		d.optFloat(f)
	}
	d.texts(s.Required)
	d.texts(s.XListMapKeys)
	d.optText(s.XListType)
	d.optText(s.XMapType)
	if s.Default != nil {
		d.text(string(s.Default.Raw))
	}
	d.count(len(s.Enum))
	for i := range s.Enum {
		d.text(string(s.Enum[i].Raw))
	}
	d.count(len(s.AllOf))
	d.count(len(s.AnyOf))
	d.count(len(s.OneOf))
	d.count(len(s.XValidations))
	for i := range s.XValidations {
		r := &s.XValidations[i]
		d.text(r.Rule)
		d.text(r.Message)
		d.text(r.MessageExpression)
		d.text(r.FieldPath)
		d.optText((*string)(r.Reason))
		d.flag(r.OptionalOldSelf != nil)
		d.flag(r.OptionalOldSelf != nil && *r.OptionalOldSelf)
	}
}
