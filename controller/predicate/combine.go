package predicate

import "github.com/kapok-dev/kapok/controller/handler"

// And passes an event that all predicates pass; every event, if there are none.
func And[object any](predicates ...TypedPredicate[object]) TypedPredicate[object] {
	return and[object](predicates)
}

// Or passes an event that one of the predicates passes; no event, if there are none.
func Or[object any](predicates ...TypedPredicate[object]) TypedPredicate[object] {
	return or[object](predicates)
}

// Not passes an event that the predicate rejects.
func Not[object any](p TypedPredicate[object]) TypedPredicate[object] { return not[object]{p} }

type and[object any] []TypedPredicate[object]

func (a and[object]) Create(e handler.TypedCreateEvent[object]) bool {
	return a.all(func(p TypedPredicate[object]) bool { return p.Create(e) })
}

func (a and[object]) Update(e handler.TypedUpdateEvent[object]) bool {
	return a.all(func(p TypedPredicate[object]) bool { return p.Update(e) })
}

func (a and[object]) Delete(e handler.TypedDeleteEvent[object]) bool {
	return a.all(func(p TypedPredicate[object]) bool { return p.Delete(e) })
}

func (a and[object]) Generic(e handler.TypedGenericEvent[object]) bool {
	return a.all(func(p TypedPredicate[object]) bool { return p.Generic(e) })
}

func (a and[object]) all(pass func(TypedPredicate[object]) bool) bool {
	for _, p := range a {
		if !pass(p) {
			return false
		}
	}
	return true
}

// MetadataOnly reports that the metadata of objects is enough.
func (a and[object]) MetadataOnly() bool { return a.all(metadataOnly[object]) }

func metadataOnly[object any](p TypedPredicate[object]) bool {
	m, ok := p.(interface{ MetadataOnly() bool })
	return ok && m.MetadataOnly()
}

type or[object any] []TypedPredicate[object]

func (o or[object]) Create(e handler.TypedCreateEvent[object]) bool {
	return o.any(func(p TypedPredicate[object]) bool { return p.Create(e) })
}

func (o or[object]) Update(e handler.TypedUpdateEvent[object]) bool {
	return o.any(func(p TypedPredicate[object]) bool { return p.Update(e) })
}

func (o or[object]) Delete(e handler.TypedDeleteEvent[object]) bool {
	return o.any(func(p TypedPredicate[object]) bool { return p.Delete(e) })
}

func (o or[object]) Generic(e handler.TypedGenericEvent[object]) bool {
	return o.any(func(p TypedPredicate[object]) bool { return p.Generic(e) })
}

func (o or[object]) any(pass func(TypedPredicate[object]) bool) bool {
	for _, p := range o {
		if pass(p) {
			return true
		}
	}
	return false
}

// MetadataOnly reports that the metadata of objects is enough.
func (o or[object]) MetadataOnly() bool { return and[object](o).MetadataOnly() }

type not[object any] struct{ p TypedPredicate[object] }

func (n not[object]) Create(e handler.TypedCreateEvent[object]) bool   { return !n.p.Create(e) }
func (n not[object]) Update(e handler.TypedUpdateEvent[object]) bool   { return !n.p.Update(e) }
func (n not[object]) Delete(e handler.TypedDeleteEvent[object]) bool   { return !n.p.Delete(e) }
func (n not[object]) Generic(e handler.TypedGenericEvent[object]) bool { return !n.p.Generic(e) }

// MetadataOnly reports that the metadata of objects is enough.
func (n not[object]) MetadataOnly() bool { return metadataOnly(n.p) }
