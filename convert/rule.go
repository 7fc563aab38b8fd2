package convert

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Rule configures a [Converter].
type Rule func(*rules)

// rules collects the rules of New before they are compiled.
type rules struct {
	spokes []spoke
	funcs  map[pair]func(in, out reflect.Value) error
	ignore map[pair]bool
	labels map[reflect.Type]LabelFunc
}

// A pair is a direction of conversion.
type pair struct{ from, to reflect.Type }

// A spoke is a version of a kind. Its functions are in rules.funcs.
type spoke struct{ hub, version reflect.Type }

// object is a Go type whose pointer is an object.
type object[T any] interface {
	*T
	runtime.Object
}

// Spoke registers T as a version of the kind whose hub is Hub, with functions for both directions.
// They are called after the fields of the same name have been converted; nil means that nothing
// else is to be converted. The hub is itself a version if it is registered in the scheme, and
// internal otherwise.
func Spoke[Hub, T any, P object[T]](to func(in *T, hub *Hub) error, from func(hub *Hub, out *T) error) Rule {
	return func(r *rules) {
		r.spokes = append(r.spokes, spoke{hub: reflect.TypeFor[Hub](), version: reflect.TypeFor[T]()})
		if to != nil {
			Func(to)(r)
		}
		if from != nil {
			Func(from)(r)
		}
	}
}

// Func registers a function that is called wherever, within an object, an A is converted to a B,
// after the fields of the same name have been converted.
func Func[A, B any](convert func(in *A, out *B) error) Rule {
	return func(r *rules) {
		r.funcs[pair{reflect.TypeFor[A](), reflect.TypeFor[B]()}] = func(in, out reflect.Value) error {
			return convert(in.Addr().Interface().(*A), out.Addr().Interface().(*B))
		}
	}
}

// Ignore makes conversions of A to B leave the B unchanged.
func Ignore[A, B any]() Rule {
	return func(r *rules) { r.ignore[pair{reflect.TypeFor[A](), reflect.TypeFor[B]()}] = true }
}

// A LabelFunc converts a field selector of one version, as "spec.nodeName" and the value to compare
// with, to that of the hub, or returns an error if there is no such label.
type LabelFunc func(label, value string) (string, string, error)

// FieldLabels registers the field labels of T. By default those of the scheme are used.
func FieldLabels[T any](convert LabelFunc) Rule {
	return func(r *rules) { r.labels[reflect.TypeFor[T]()] = convert }
}

// ConvertFieldLabel converts a field selector to that of the hub.
func (c *Converter) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	if convert := c.labels[c.types[gvk]]; convert != nil {
		return convert(label, value)
	}
	return c.scheme.ConvertFieldLabel(gvk, label, value)
}

// Rules combines several rules into one.
func Rules(all ...Rule) Rule {
	return func(r *rules) {
		for _, rule := range all {
			rule(r)
		}
	}
}

// Names returns a function that converts the fields of the same name and leaves all others
// unchanged. It is for functions of objects of which a part has moved to another field. It is
// compiled at the first call.
func Names[A, B any](within ...Rule) func(in *A, out *B) error {
	compiled := sync.OnceValues(func() (func(in, out reflect.Value) error, error) {
		c := newCompiler(within)
		return c.fields(pair{reflect.TypeFor[A](), reflect.TypeFor[B]()}, true)
	})
	return func(in *A, out *B) error {
		run, err := compiled()
		if err != nil {
			return err
		}
		return run(reflect.ValueOf(in).Elem(), reflect.ValueOf(out).Elem())
	}
}
