package schema

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// identity identifies the items of a list of type set or map: by their value, or by their keys.
type identity struct {
	set  bool
	keys []string // escaped, as in expressions
}

// identifiedList is a list of type set or map. In expressions, its order is irrelevant, and the sum
// of two lists is their union; items of the second list replace those of the first with the same
// keys.
type identifiedList struct {
	traits.Lister
	identity

	// Lists of type map in an object are compared by the values under the escaped names of the
	// keys, and so by no values if a name needs escaping. Sums of lists are compared by the keys
	// that expressions see. Kubernetes does the same.
	raw   bool
	items map[any]ref.Val // items of a raw list by key, once it has been compared
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
	return &identifiedList{Lister: types.NewRefValList(types.DefaultTypeAdapter, all), identity: l.identity}
}

// Equal implements ref.Val. If keys of raw lists are lists or objects, it panics with a message of
// the Go runtime: as in Kubernetes, this ends the evaluation with an error that the expression
// cannot absorb.
func (l *identifiedList) Equal(other ref.Val) ref.Val {
	with, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if l.Size() != with.Size() {
		return types.False
	}
	mine, err := l.index()
	if err != nil {
		return err
	}
	seen := make(map[any]bool, len(mine))
	for _, v := range valuesOf(with) {
		key, err := l.compared(v)
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

// index returns the items by the keys that Equal uses. A raw list computes it once, and keeps the
// partial result if a key causes a panic: another comparison of the list, in another expression,
// does not panic again.
func (l *identifiedList) index() (map[any]ref.Val, ref.Val) {
	if l.items != nil {
		return l.items, nil
	}
	all := valuesOf(l.Lister)
	index := make(map[any]ref.Val, len(all))
	if l.raw {
		l.items = index
	}
	for _, v := range all {
		key, err := l.compared(v)
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

// compared returns the key by which Equal compares an item.
func (l *identifiedList) compared(item ref.Val) (key any, err ref.Val) {
	if !l.raw {
		return l.of(item)
	}
	obj, ok := item.Value().(map[string]any)
	if !ok {
		return new(byte), nil // equal to no other key
	}
	return l.join(func(name string) any { return obj[name] }), nil
}

// of returns the key of an item for expressions, in a comparable form.
func (id *identity) of(item ref.Val) (key any, err ref.Val) {
	if id.set {
		switch item.(type) {
		case traits.Lister, traits.Mapper:
			return nil, types.NewErr("listSet operations are only supported on lists of scalar values")
		}
		return asKey(item.Value()), nil
	}
	obj, ok := item.(traits.Mapper)
	return id.join(func(name string) any {
		if !ok {
			return nil
		}
		v, found := obj.Find(types.String(name))
		if !found || v == nil || types.IsUnknownOrError(v) {
			return nil
		}
		return asKey(v.Value())
	}), nil
}

// join returns one key for the values of all keys. Kubernetes compares up to three by value, and
// more by their printed form.
func (id *identity) join(value func(name string) any) any {
	switch k := id.keys; len(k) {
	case 1:
		return value(k[0])
	case 2:
		return [2]any{value(k[0]), value(k[1])}
	case 3:
		return [3]any{value(k[0]), value(k[1]), value(k[2])}
	}
	values := make([]any, len(id.keys))
	for i, k := range id.keys {
		values[i] = value(k)
	}
	return fmt.Sprintf("%#v", values)
}

// asKey returns a comparable value; those of equal values are equal.
func asKey(v any) any {
	if v == nil || reflect.TypeOf(v).Comparable() {
		return v
	}
	return fmt.Sprintf("%#v", v)
}
