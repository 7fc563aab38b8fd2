package predicate

import "github.com/kapok-dev/kapok/controller/handler"

// And lets an event pass that all predicates let pass; every event, if there are none.
func And(predicates ...Predicate) Predicate { return and(predicates) }

// Or lets an event pass that one of the predicates lets pass; no event, if there are none.
func Or(predicates ...Predicate) Predicate { return or(predicates) }

// Not lets an event pass that a predicate refuses.
func Not(p Predicate) Predicate { return not{p} }

type and []Predicate

func (a and) Create(e handler.CreateEvent) bool {
	return a.all(func(p Predicate) bool { return p.Create(e) })
}
func (a and) Update(e handler.UpdateEvent) bool {
	return a.all(func(p Predicate) bool { return p.Update(e) })
}
func (a and) Delete(e handler.DeleteEvent) bool {
	return a.all(func(p Predicate) bool { return p.Delete(e) })
}
func (a and) Generic(e handler.GenericEvent) bool {
	return a.all(func(p Predicate) bool { return p.Generic(e) })
}

func (a and) all(pass func(Predicate) bool) bool {
	for _, p := range a {
		if !pass(p) {
			return false
		}
	}
	return true
}

// MetadataOnly says that the metadata of objects is enough.
func (a and) MetadataOnly() bool { return a.all(metadataOnly) }

func metadataOnly(p Predicate) bool {
	m, ok := p.(interface{ MetadataOnly() bool })
	return ok && m.MetadataOnly()
}

type or []Predicate

func (o or) Create(e handler.CreateEvent) bool {
	return o.any(func(p Predicate) bool { return p.Create(e) })
}
func (o or) Update(e handler.UpdateEvent) bool {
	return o.any(func(p Predicate) bool { return p.Update(e) })
}
func (o or) Delete(e handler.DeleteEvent) bool {
	return o.any(func(p Predicate) bool { return p.Delete(e) })
}
func (o or) Generic(e handler.GenericEvent) bool {
	return o.any(func(p Predicate) bool { return p.Generic(e) })
}

func (o or) any(pass func(Predicate) bool) bool {
	for _, p := range o {
		if pass(p) {
			return true
		}
	}
	return false
}

// MetadataOnly says that the metadata of objects is enough.
func (o or) MetadataOnly() bool { return and(o).MetadataOnly() }

type not struct{ Predicate }

func (n not) Create(e handler.CreateEvent) bool   { return !n.Predicate.Create(e) }
func (n not) Update(e handler.UpdateEvent) bool   { return !n.Predicate.Update(e) }
func (n not) Delete(e handler.DeleteEvent) bool   { return !n.Predicate.Delete(e) }
func (n not) Generic(e handler.GenericEvent) bool { return !n.Predicate.Generic(e) }

// MetadataOnly says that the metadata of objects is enough.
func (n not) MetadataOnly() bool { return metadataOnly(n.Predicate) }
