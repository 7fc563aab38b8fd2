package defaults

import (
	"reflect"
	"sync"
)

// Functions maps types to the functions that apply their defaults. Those in final handle nested
// types too.
type Functions struct {
	fill  map[reflect.Type]func(v reflect.Value)
	final map[reflect.Type]bool
	// idle caches the types that need no defaults, nor does any type nested in them.
	idle sync.Map // reflect.Type -> bool
}

// On registers the defaults of T.
func On[T any](f *Functions, fill func(*T)) {
	f.fill[reflect.TypeFor[T]()] = func(v reflect.Value) { fill(v.Addr().Interface().(*T)) }
}

// Whole registers defaults of T that include those of all nested types.
func Whole[T any](f *Functions, fill func(*T)) {
	On(f, fill)
	f.final[reflect.TypeFor[T]()] = true
}

// New returns the functions that all groups register.
func New(groups ...func(*Functions)) *Functions {
	f := &Functions{fill: map[reflect.Type]func(reflect.Value){}, final: map[reflect.Type]bool{}}
	for _, group := range groups {
		group(f)
	}
	return f
}

// VisitAll applies all defaults to an object and to what is nested in it.
func (f *Functions) VisitAll(obj any) { visit(reflect.ValueOf(obj), f) }

// visit applies defaults to a value, which must be addressable unless it is a pointer.
func visit(v reflect.Value, f *Functions) {
	t := v.Type()
	if f.isIdle(t, nil) {
		return
	}
	if fill := f.fill[t]; fill != nil {
		fill(v)
	}
	if f.final[t] {
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Elem(), f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if t.Field(i).IsExported() {
				visit(v.Field(i), f)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			visit(v.Index(i), f)
		}
	}
}

// isIdle reports whether a type and all types nested in it have no defaults. above are the types
// being visited: a type that only contains itself is idle.
func (f *Functions) isIdle(t reflect.Type, above []reflect.Type) bool {
	if known, ok := f.idle.Load(t); ok {
		return known.(bool)
	}
	idle := f.fill[t] == nil
	for _, a := range above {
		if a == t {
			return idle // not cached: the outer call decides
		}
	}
	above = append(above, t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		idle = idle && f.isIdle(t.Elem(), above)
	case reflect.Struct:
		for i := 0; idle && i < t.NumField(); i++ {
			if t.Field(i).IsExported() {
				idle = f.isIdle(t.Field(i).Type, above)
			}
		}
	}
	if len(above) == 1 || !idle {
		f.idle.Store(t, idle)
	}
	return idle
}
