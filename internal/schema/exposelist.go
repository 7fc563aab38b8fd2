package schema

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

func exposeList(v any, n *node) ref.Val {
	list, ok := v.([]any)
	if !ok {
		return types.NewErr("invalid data, expected an array for the provided schema with type=array")
	}
	if n.items == nil {
		return types.NewErr("invalid array type, expected Items with a non-empty Schema")
	}
	l := listValue{list, n.items}
	if n.list == nil {
		return &l
	}
	kind := identity{set: n.list.kind == listSet}
	for _, k := range n.list.keys {
		if escaped, ok := apiservercel.Escape(k); ok {
			k = escaped
		}
		kind.keys = append(kind.keys, k)
	}
	return &identifiedList{Lister: &l, identity: kind, raw: !kind.set}
}

// listValue is a list as seen by expressions.
type listValue struct {
	value []any
	items *node
}

var _ traits.Lister = (*listValue)(nil)

// Get implements traits.Indexer.
func (l *listValue) Get(index ref.Val) ref.Val {
	i, ok := index.(types.Int)
	if !ok {
		return types.ValOrErr(index, "unsupported index: %v", index)
	}
	if i < 0 || int(i) >= len(l.value) {
		return types.NewErr("index out of bounds: %v", index)
	}
	return expose(l.value[i], l.items)
}

// Contains implements traits.Container.
func (l *listValue) Contains(v ref.Val) ref.Val {
	if types.IsUnknownOrError(v) {
		return v
	}
	var problem ref.Val
	for _, item := range l.value {
		same := expose(item, l.items).Equal(v)
		if same == types.True {
			return types.True
		}
		if _, ok := same.(types.Bool); !ok && problem == nil {
			problem = types.MaybeNoSuchOverloadErr(same)
		}
	}
	if problem != nil {
		return problem
	}
	return types.False
}

// Size implements traits.Sizer.
func (l *listValue) Size() ref.Val { return types.Int(len(l.value)) }

// Iterator implements traits.Iterable.
func (l *listValue) Iterator() traits.Iterator { return &valueIterator{rest: l.exposed()} }

func (l *listValue) exposed() []ref.Val {
	all := make([]ref.Val, len(l.value))
	for i, v := range l.value {
		all[i] = expose(v, l.items)
	}
	return all
}

// Add implements traits.Adder.
func (l *listValue) Add(other ref.Val) ref.Val {
	with, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, append(l.exposed(), valuesOf(with)...))
}

// Equal implements ref.Val.
func (l *listValue) Equal(other ref.Val) ref.Val {
	with, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if l.Size() != with.Size() {
		return types.False
	}
	for i := range types.Int(len(l.value)) {
		if same := l.Get(i).Equal(with.Get(i)); same != types.True {
			return same
		}
	}
	return types.True
}

// ConvertToNative implements ref.Val. Libraries only convert lists of strings.
func (l *listValue) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() != reflect.Slice {
		return nil, fmt.Errorf("type conversion error from '%s' to '%s'", l.Type(), t)
	}
	if l.items.types != typeString {
		return l.value, nil
	}
	var texts []string
	for _, v := range l.value {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("expected all elements to be of type string, but got %T", v)
		}
		texts = append(texts, s)
	}
	return texts, nil
}

// ConvertToType implements ref.Val.
func (l *listValue) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.ListType:
		return l
	case types.TypeType:
		return types.ListType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", l.Type(), t.TypeName())
}

// Type implements ref.Val.
func (l *listValue) Type() ref.Type { return types.ListType }

// Value implements ref.Val.
func (l *listValue) Value() any { return l.value }

// valueIterator iterates over values.
type valueIterator struct {
	types.Null // the CEL type of an iterator is never used
	rest       []ref.Val
}

// HasNext implements traits.Iterator.
func (it *valueIterator) HasNext() ref.Val { return types.Bool(len(it.rest) > 0) }

// Next implements traits.Iterator.
func (it *valueIterator) Next() ref.Val {
	v := it.rest[0]
	it.rest = it.rest[1:]
	return v
}

// valuesOf returns the items of a list.
func valuesOf(l traits.Lister) []ref.Val {
	var all []ref.Val
	for it := l.Iterator(); it.HasNext() == types.True; {
		all = append(all, it.Next())
	}
	return all
}
