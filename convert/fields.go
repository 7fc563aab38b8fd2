package convert

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// A program converts a value of one type into one of another. Both are addressable, and out is
// zero.
type program struct {
	run func(in, out reflect.Value) error
}

// compiler compiles programs for pairs of types, each pair once. A program is registered before its
// parts are compiled, so that types may be recursive.
type compiler struct {
	rules
	programs map[pair]*program
}

func newCompiler(all []Rule) *compiler {
	c := &compiler{programs: map[pair]*program{}}
	c.funcs, c.ignore, c.labels = map[pair]func(in, out reflect.Value) error{}, map[pair]bool{}, map[reflect.Type]LabelFunc{}
	for _, rule := range all {
		rule(&c.rules)
	}
	return c
}

func (c *compiler) compile(from, to reflect.Type) (*program, error) {
	p := pair{from, to}
	if done := c.programs[p]; done != nil {
		return done, nil
	}
	done := &program{}
	c.programs[p] = done
	run, err := c.make(p)
	if err != nil {
		// Programs that were compiled for its parts may refer to this one.
		done.run = func(_, _ reflect.Value) error { return err }
		delete(c.programs, p)
		return nil, err
	}
	done.run = run
	return done, nil
}

func (c *compiler) make(p pair) (func(in, out reflect.Value) error, error) {
	call := c.funcs[p]
	switch {
	case c.ignore[p]:
		return func(_, _ reflect.Value) error { return nil }, nil
	case call != nil && (p.from.Kind() != reflect.Struct || p.to.Kind() != reflect.Struct):
		return call, nil // what is no struct has no fields that could be converted before
	case p.from == p.to:
		fields, err := c.copy(p.from)
		return sequence(fields, call), err
	case p.from.Kind() != p.to.Kind():
		return nil, fmt.Errorf("no conversion of %v to %v", p.from, p.to)
	}
	switch p.from.Kind() {
	case reflect.Struct:
		fields, err := c.fields(p, call != nil)
		return sequence(fields, call), err
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		return c.elements(p)
	case reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return nil, fmt.Errorf("no conversion of %v to %v", p.from, p.to)
	}
	return func(in, out reflect.Value) error {
		out.Set(in.Convert(p.to))
		return nil
	}, nil
}

// sequence returns a function that calls both, one after the other; the second may be nil.
func sequence(first, second func(in, out reflect.Value) error) func(in, out reflect.Value) error {
	if second == nil {
		return first
	}
	return func(in, out reflect.Value) error {
		if err := first(in, out); err != nil {
			return err
		}
		return second(in, out)
	}
}

// fields converts a struct field by field. If a function follows, fields without a counterpart are
// left to it.
func (c *compiler) fields(p pair, lenient bool) (func(in, out reflect.Value) error, error) {
	type step struct {
		name     string
		from, to int
		*program
	}
	var steps []step
	var errs []error
	for i := range p.from.NumField() {
		field := p.from.Field(i)
		if !field.IsExported() {
			return nil, fmt.Errorf("no conversion of %v to %v: it has unexported fields", p.from, p.to)
		}
		other, ok := p.to.FieldByName(field.Name)
		if !ok || len(other.Index) > 1 {
			errs = append(errs, fmt.Errorf("%v.%s has no counterpart in %v", p.from, field.Name, p.to))
			continue
		}
		sub, err := c.compile(field.Type, other.Type)
		if err != nil {
			errs = append(errs, fmt.Errorf("%v.%s: %w", p.from, field.Name, err))
			continue
		}
		steps = append(steps, step{label(field), i, other.Index[0], sub})
	}
	if len(errs) > 0 && !lenient {
		return nil, errors.Join(errs...)
	}
	return func(in, out reflect.Value) error {
		for _, s := range steps {
			if err := s.run(in.Field(s.from), out.Field(s.to)); err != nil {
				return at(s.name, err)
			}
		}
		return nil
	}, nil
}

// elements converts the elements of a pointer, slice, map or array. Nil stays nil, and empty stays
// empty.
func (c *compiler) elements(p pair) (func(in, out reflect.Value) error, error) {
	elem, err := c.compile(p.from.Elem(), p.to.Elem())
	if err != nil {
		return nil, err
	}
	var key *program
	if p.from.Kind() == reflect.Map {
		if key, err = c.compile(p.from.Key(), p.to.Key()); err != nil {
			return nil, err
		}
	}
	return func(in, out reflect.Value) error {
		switch p.from.Kind() {
		case reflect.Array:
			if in.Len() != out.Len() {
				return fmt.Errorf("no conversion of %v to %v", p.from, p.to)
			}
		default:
			if in.IsNil() {
				return nil
			}
		}
		switch p.from.Kind() {
		case reflect.Pointer:
			out.Set(reflect.New(p.to.Elem()))
			return elem.run(in.Elem(), out.Elem())
		case reflect.Map:
			out.Set(reflect.MakeMapWithSize(p.to, in.Len()))
			for iter := in.MapRange(); iter.Next(); {
				k, v := reflect.New(p.to.Key()).Elem(), reflect.New(p.to.Elem()).Elem()
				if err := key.run(addressable(iter.Key()), k); err != nil {
					return err
				}
				if err := elem.run(addressable(iter.Value()), v); err != nil {
					return at(fmt.Sprintf("[%v]", iter.Key()), err)
				}
				out.SetMapIndex(k, v)
			}
			return nil
		case reflect.Slice:
			out.Set(reflect.MakeSlice(p.to, in.Len(), in.Len()))
		}
		for i := range in.Len() {
			if err := elem.run(in.Index(i), out.Index(i)); err != nil {
				return at(fmt.Sprintf("[%d]", i), err)
			}
		}
		return nil
	}, nil
}

// copy copies a value of one type. Plain values are assigned; types with a method DeepCopyInto or
// DeepCopy are copied by it.
func (c *compiler) copy(t reflect.Type) (func(in, out reflect.Value) error, error) {
	if plain(t) {
		return func(in, out reflect.Value) error { out.Set(in); return nil }, nil
	}
	if into, ok := reflect.PointerTo(t).MethodByName("DeepCopyInto"); ok && into.Type.NumIn() == 2 && into.Type.In(1) == reflect.PointerTo(t) {
		return func(in, out reflect.Value) error {
			into.Func.Call([]reflect.Value{in.Addr(), out.Addr()})
			return nil
		}, nil
	}
	if deep, ok := t.MethodByName("DeepCopy"); ok && deep.Type.NumIn() == 1 && deep.Type.NumOut() == 1 && deep.Type.Out(0) == t {
		return func(in, out reflect.Value) error {
			out.Set(deep.Func.Call([]reflect.Value{in})[0])
			return nil
		}, nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return c.fields(pair{t, t}, false)
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		return c.elements(pair{t, t})
	}
	return nil, fmt.Errorf("no deep copy of %v", t)
}

// plain reports whether an assigned value of a type shares no memory with its source.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if !plain(t.Field(i).Type) {
				return false
			}
		}
		return true
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return false
	}
	return true
}

func addressable(v reflect.Value) reflect.Value {
	a := reflect.New(v.Type()).Elem()
	a.Set(v)
	return a
}

// label returns the JSON name of a field, for messages; "" for an inlined field.
func label(field reflect.StructField) string {
	tag, tagged := field.Tag.Lookup("json")
	name, _, _ := strings.Cut(tag, ",")
	switch {
	case name != "" && name != "-":
		return name
	case tagged && field.Anonymous:
		return ""
	}
	return field.Name
}

// fieldError is an error at a path in the object.
type fieldError struct {
	path string
	err  error
}

func (e *fieldError) Error() string { return e.path + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// at prepends the name of a field to the path of an error.
func at(name string, err error) error {
	inner, ok := err.(*fieldError)
	switch {
	case name == "":
		return err
	case !ok:
		return &fieldError{name, err}
	case strings.HasPrefix(inner.path, "["):
		return &fieldError{name + inner.path, inner.err}
	}
	return &fieldError{name + "." + inner.path, inner.err}
}
