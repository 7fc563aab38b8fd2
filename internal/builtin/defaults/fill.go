package defaults

import (
	"reflect"
	"sync"
)

// Fill fills in what an object leaves open: a pointer to a Go type of k8s.io/api, or to a list of them. Types are visited
// from the outside in, and each has its own function; what is within a pod's spec is done by [PodSpec].
func Fill(obj any) {
	visit(reflect.ValueOf(obj), table())
}

// functions by the type that they fill in. Those in final do all that is within, too.
type functions struct {
	fill  map[reflect.Type]func(v reflect.Value)
	final map[reflect.Type]bool
	// idle remembers types within which there is nothing to do.
	idle sync.Map // reflect.Type -> bool
}

// on registers what fills in a T.
func on[T any](f *functions, fill func(*T)) {
	f.fill[reflect.TypeFor[T]()] = func(v reflect.Value) { fill(v.Addr().Interface().(*T)) }
}

// whole registers what fills in a T and all that is within.
func whole[T any](f *functions, fill func(*T)) {
	on(f, fill)
	f.final[reflect.TypeFor[T]()] = true
}

var table = sync.OnceValue(func() *functions {
	f := &functions{fill: map[reflect.Type]func(reflect.Value){}, final: map[reflect.Type]bool{}}
	for _, group := range []func(*functions){
		coreTypes, appsTypes, extensionsTypes, batchTypes, autoscalingTypes, networkingTypes, rbacTypes, storageTypes,
		admissionTypes, flowcontrolTypes, resourceTypes, certificatesTypes, otherTypes,
	} {
		group(f)
	}
	return f
})

// visit fills in a value, which is addressable but for pointers.
func visit(v reflect.Value, f *functions) {
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

// isIdle says whether there is nothing to do for a type and all that it may hold. above are the types that are being
// looked at: what only contains itself is idle.
func (f *functions) isIdle(t reflect.Type, above []reflect.Type) bool {
	if known, ok := f.idle.Load(t); ok {
		return known.(bool)
	}
	idle := f.fill[t] == nil
	for _, a := range above {
		if a == t {
			return idle // not remembered: it is decided further up
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
