package webhook

import (
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/tidwall/btree"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Slices are the EndpointSlices in a state by their service. They are safe for concurrent use.
type Slices struct{ derived *state.Derived[*index] }

// SlicesIn returns the EndpointSlices in a state.
func SlicesIn(s *state.State) Slices { return Slices{state.Derive(s, fold, endpointSlices)} }

// Of returns the slices of a service, by name. The caller must not change the list.
func (s Slices) Of(namespace, service string) []*object.Object {
	return s.derived.Load().of(namespace, service)
}

// An index has the EndpointSlices at one revision by their service. It is immutable once fold has
// returned it.
type index struct {
	services btree.Map[ofNamespace, []*object.Object] // sorted by name
	slices   btree.Map[ofNamespace, string]           // the service of each slice

	read int // number of objects read by the fold that returned this index
}

// ofNamespace is the name of an object in a namespace: "namespace/name".
type ofNamespace = string

func named(namespace, name string) ofNamespace { return namespace + "/" + name }

// of returns the slices of a service.
func (x *index) of(namespace, service string) []*object.Object {
	all, _ := x.services.Get(named(namespace, service))
	return all
}

// fold moves the changed slices to their present services.
func fold(last *index, c *state.Changes) *index {
	next := &index{}
	if last != nil {
		next.services, next.slices = *last.services.Copy(), *last.slices.Copy()
	}
	for key, o := range c.Objects() {
		next.read++
		slice := named(key.Namespace, key.Name)
		if service, ok := next.slices.Delete(slice); ok {
			next.move(named(key.Namespace, service), key.Name, nil)
		}
		if o == nil {
			continue
		}
		if service := o.Meta.Labels.Get(discoveryv1.LabelServiceName); service != "" {
			next.slices.Set(slice, service)
			next.move(named(key.Namespace, service), key.Name, o)
		}
	}
	return next
}

// move adds or replaces a slice of a service, or removes it if o is nil. It makes a new list,
// because other indices share the old one.
func (x *index) move(service ofNamespace, name string, o *object.Object) {
	last, _ := x.services.Get(service)
	at, found := slices.BinarySearchFunc(last, name, func(o *object.Object, name string) int { return strings.Compare(o.Key.Name, name) })
	behind := at
	if found {
		behind++
	}
	var own []*object.Object
	if o != nil {
		own = []*object.Object{o}
	}
	if next := slices.Concat(last[:at], own, last[behind:]); len(next) > 0 {
		x.services.Set(service, next)
	} else {
		x.services.Delete(service)
	}
}
