package schema

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/equality"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// expose returns a value of schema n as seen by expressions. It behaves like UnstructuredToVal of
// k8s.io/apiserver/pkg/cel/common, and has the same error messages.
func expose(v any, n *node) ref.Val {
	if v == nil {
		if n.nullable {
			return types.NullValue
		}
		return types.NewErr("invalid data, got null for schema with nullable=false")
	}
	if n.intOrString() {
		switch v := v.(type) {
		case string:
			return types.String(v)
		case int64:
			return types.Int(v)
		}
		return types.NewErr("invalid data, expected XIntOrString value to be either a string or integer")
	}
	switch n.types {
	case typeObject:
		if obj, ok := v.(map[string]any); ok {
			if n.resource != nil {
				n = n.resource
			}
			return &objectValue{obj, n}
		}
		return types.NewErr("invalid data, expected a map for the provided schema with type=object")
	case typeArray:
		return exposeList(v, n)
	case typeString:
		return exposeString(v, n)
	case typeNumber:
		switch v := v.(type) {
		case int64:
			return types.Double(v)
		case float64:
			return types.Double(v)
		}
		return types.NewErr("invalid data, expected float, got %T", v)
	case typeInteger:
		if i, ok := v.(int64); ok {
			return types.Int(i)
		}
		return types.NewErr("invalid data, expected int, got %T", v)
	case typeBoolean:
		if b, ok := v.(bool); ok {
			return types.Bool(b)
		}
		return types.NewErr("invalid data, expected bool, got %T", v)
	}
	if n.keep {
		return &anyValue{v}
	}
	return types.NewErr("invalid type, expected object, array, number, integer, boolean or string, or no type with x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got %s", n.typeNames())
}

func exposeString(v any, n *node) ref.Val {
	s, ok := v.(string)
	if !ok {
		return types.NewErr("invalid data, expected string, got %T", v)
	}
	switch n.formatName() {
	case "duration":
		d, err := strfmt.ParseDuration(s)
		if err != nil {
			return types.NewErr("Invalid duration %s: %v", s, err)
		}
		return types.Duration{Duration: d}
	case "date":
		d, err := time.Parse(strfmt.RFC3339FullDate, s)
		if err != nil {
			return types.NewErr("Invalid date formatted string %s: %v", s, err)
		}
		return types.Timestamp{Time: d}
	case "date-time":
		d, err := strfmt.ParseDateTime(s)
		if err != nil {
			return types.NewErr("Invalid date-time formatted string %s: %v", s, err)
		}
		return types.Timestamp{Time: time.Time(d)}
	case "byte":
		var b strfmt.Base64
		if err := b.UnmarshalText([]byte(s)); err != nil {
			return types.NewErr("Invalid byte formatted string %s: %v", s, err)
		}
		return types.Bytes(b)
	}
	return types.String(s)
}

// objectValue is an object as seen by expressions: its declared properties under escaped names or,
// if it declares none, its additional properties as they are. Declared properties that are null are
// absent.
type objectValue struct {
	value map[string]any
	node  *node
}

var _ traits.Mapper = (*objectValue)(nil)

// child returns the schema of a property; nil if expressions do not see it.
func (o *objectValue) child(name string) *node {
	if len(o.node.fields) > 0 {
		return o.node.field(name)
	}
	return o.node.additional
}

// Find implements traits.Mapper.
func (o *objectValue) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	k, named := string(name), len(o.node.fields) > 0
	if named && strings.Contains(k, "__") {
		if k, ok = apiservercel.Unescape(k); !ok {
			return nil, false
		}
	}
	v, found := o.value[k]
	if !found || named && v == nil {
		return nil, false
	}
	c := o.child(k)
	if c == nil {
		return nil, false
	}
	return expose(v, c), true
}

// Get implements traits.Indexer.
func (o *objectValue) Get(key ref.Val) ref.Val {
	if v, found := o.Find(key); found {
		return v
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements traits.Container.
func (o *objectValue) Contains(key ref.Val) ref.Val {
	v, found := o.Find(key)
	if v != nil && types.IsUnknownOrError(v) {
		return v
	}
	return types.Bool(found)
}

// Size implements traits.Sizer. It includes properties that expressions do not see.
func (o *objectValue) Size() ref.Val { return types.Int(len(o.value)) }

// Iterator implements traits.Iterable. Keys are sorted, so that equal objects give equal results.
// Nils at the end replace the properties that expressions do not see, which Kubernetes counts in
// the cost of a traversal.
func (o *objectValue) Iterator() traits.Iterator {
	keys := make([]ref.Val, 0, len(o.value))
	for _, k := range slices.Sorted(maps.Keys(o.value)) {
		if o.child(k) == nil {
			continue
		}
		if len(o.node.fields) > 0 {
			if escaped, ok := apiservercel.Escape(k); ok {
				k = escaped
			}
		}
		keys = append(keys, types.String(k))
	}
	return &valueIterator{rest: keys[:len(o.value)]}
}

// Equal implements ref.Val. Properties that expressions do not see are compared without conversion.
func (o *objectValue) Equal(other ref.Val) ref.Val {
	with, ok := other.(traits.Mapper)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if o.Size() != with.Size() {
		return types.False
	}
	for _, k := range slices.Sorted(maps.Keys(o.value)) {
		if o.child(k) == nil {
			raw, ok := other.(*objectValue)
			if !ok {
				return types.MaybeNoSuchOverloadErr(other)
			}
			if w, found := raw.value[k]; found && !equality.Semantic.DeepEqual(o.value[k], w) {
				return types.False
			}
			continue
		}
		v, found := o.Find(types.String(k))
		w, otherFound := with.Find(types.String(k))
		if found != otherFound {
			return types.False
		}
		if found {
			if same := v.Equal(w); same != types.True {
				return same
			}
		}
	}
	return types.True
}

// ConvertToNative implements ref.Val.
func (o *objectValue) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() == reflect.Map {
		return o.value, nil
	}
	return nil, fmt.Errorf("type conversion error from '%s' to '%s'", o.Type(), t)
}

// ConvertToType implements ref.Val.
func (o *objectValue) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return o
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", o.Type(), t.TypeName())
}

// Type implements ref.Val.
func (o *objectValue) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (o *objectValue) Value() any { return o.value }

// anyValue is a value without a schema. It can only be compared.
type anyValue struct{ value any }

// Equal implements ref.Val.
func (a *anyValue) Equal(other ref.Val) ref.Val {
	return types.Bool(equality.Semantic.DeepEqual(a.value, other.Value()))
}

// ConvertToNative implements ref.Val.
func (a *anyValue) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion to '%s' not supported for values preserved by x-kubernetes-preserve-unknown-fields", t)
}

// ConvertToType implements ref.Val.
func (a *anyValue) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("type conversion to '%s' not supported for values preserved by x-kubernetes-preserve-unknown-fields", t.TypeName())
}

// Type implements ref.Val.
func (a *anyValue) Type() ref.Type { return types.UnknownType }

// Value implements ref.Val.
func (a *anyValue) Value() any { return a.value }
