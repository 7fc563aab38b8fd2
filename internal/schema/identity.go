package schema

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// identity is what tells the items of a list of type set or map apart: their value, or their keys.
type identity struct {
	set  bool
	keys []string // escaped, as expressions spell them
}

// identifiedList is a list of type set or map. For expressions its order does not matter, and the sum of two lists is
// their union, in which items of the second list replace those of the first that have the same keys.
type identifiedList struct {
	traits.Lister
	identity
}

// Add implements traits.Adder.
func (l *identifiedList) Add(other ref.Val) ref.Val {
	with, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	all := valuesOf(l.Lister)
	at := make(map[any]int, len(all))
	for i, v := range all {
		key, err := l.of(v)
		if err != nil {
			return err
		}
		if _, found := at[key]; !found || !l.set {
			at[key] = i
		}
	}
	for _, v := range valuesOf(with) {
		key, err := l.of(v)
		if err != nil {
			return err
		}
		if i, found := at[key]; !found {
			if l.set {
				at[key] = len(all)
			}
			all = append(all, v)
		} else if !l.set {
			all[i] = v
		}
	}
	return &identifiedList{types.NewRefValList(types.DefaultTypeAdapter, all), l.identity}
}

// Equal implements ref.Val.
func (l *identifiedList) Equal(other ref.Val) ref.Val {
	with, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if l.Size() != with.Size() {
		return types.False
	}
	mine, err := l.index(l.Lister)
	if err != nil {
		return err
	}
	seen := make(map[any]bool, len(mine))
	for _, v := range valuesOf(with) {
		key, err := l.of(v)
		if err != nil {
			return err
		}
		m, found := mine[key]
		if !found {
			return types.False
		}
		if !l.set {
			if same := m.Equal(v); same != types.True {
				return same
			}
		}
		seen[key] = true
	}
	return types.Bool(len(seen) == len(mine))
}

func (l *identifiedList) index(list traits.Lister) (map[any]ref.Val, ref.Val) {
	all := valuesOf(list)
	index := make(map[any]ref.Val, len(all))
	for _, v := range all {
		key, err := l.of(v)
		if err != nil {
			return nil, err
		}
		index[key] = v
	}
	return index, nil
}

// ConvertToType implements ref.Val.
func (l *identifiedList) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return l
	}
	return l.Lister.ConvertToType(t)
}

// of returns what identifies an item, in a form that can be compared.
func (id *identity) of(item ref.Val) (key any, err ref.Val) {
	if id.set {
		switch item.(type) {
		case traits.Lister, traits.Mapper:
			return nil, types.NewErr("listSet operations are only supported on lists of scalar values")
		}
		return asKey(item.Value()), nil
	}
	obj, ok := item.(traits.Mapper)
	if !ok {
		return new(byte), nil // like nothing else
	}
	keys := make([]any, len(id.keys))
	for i, k := range id.keys {
		if v, found := obj.Find(types.String(k)); found && v != nil && !types.IsUnknownOrError(v) {
			keys[i] = asKey(v.Value())
		}
	}
	if len(keys) == 1 {
		return keys[0], nil
	}
	return fmt.Sprintf("%#v", keys), nil
}

// asKey returns a value that is equal to another one if what they stand for is.
func asKey(v any) any {
	if v == nil || reflect.TypeOf(v).Comparable() {
		return v
	}
	return fmt.Sprintf("%#v", v)
}
