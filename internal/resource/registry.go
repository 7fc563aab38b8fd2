package resource

import (
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Registry holds the served definitions. Readers load a Set, which never changes. It is safe for
// concurrent use.
type Registry struct {
	mu      sync.Mutex // serialises changes
	current atomic.Pointer[Set]
}

// A Set holds the definitions at one time. It is immutable.
type Set struct {
	// Generation grows with each change of the registry.
	Generation uint64

	all        []*Definition // in the order in which they came
	byResource index[schema.GroupResource]
	byKind     index[schema.GroupKind]
	changed    chan struct{}
}

// NewRegistry returns a registry of the given definitions.
func NewRegistry(definitions ...*Definition) *Registry {
	r := &Registry{}
	r.current.Store(&Set{changed: make(chan struct{})})
	r.Put(definitions...)
	return r
}

// Load returns the current definitions.
func (r *Registry) Load() *Set { return r.current.Load() }

// Put adds definitions, or replaces those of the same resources. Watches of a replaced definition
// end, unless the new definition is a copy of it.
func (r *Registry) Put(definitions ...*Definition) {
	r.change(func(c *transition) {
		for _, d := range definitions {
			old := c.byResource.get(d.GroupResource())
			if old == nil || d.retired == nil || old.retired != d.retired {
				d.retired = make(chan struct{})
			}
			if old == nil {
				c.next.all = append(c.next.all, d)
			} else {
				c.next.all[slices.Index(c.next.all, old)] = d
				c.leave(old, d)
			}
			for group := range d.Groups() {
				c.byResource.put(schema.GroupResource{Group: group, Resource: d.Plural}, d)
				c.byKind.put(schema.GroupKind{Group: group, Kind: d.Kind}, d)
			}
		}
	})
}

// Remove removes the definition of a resource, if there is one.
func (r *Registry) Remove(gr schema.GroupResource) {
	r.change(func(c *transition) {
		if old := c.byResource.get(gr); old != nil {
			i := slices.Index(c.next.all, old)
			c.next.all = slices.Delete(c.next.all, i, i+1)
			c.leave(old, nil)
		}
	})
}

// A transition derives the next set from the current one, at a cost that depends little on the
// number of definitions.
type transition struct {
	next       *Set
	byResource editor[schema.GroupResource]
	byKind     editor[schema.GroupKind]
	retired    []*Definition
}

// leave records that a definition is no longer served, and which one replaces it; nil for none.
func (c *transition) leave(old, now *Definition) {
	for group := range old.Groups() {
		if gr := (schema.GroupResource{Group: group, Resource: old.Plural}); c.byResource.get(gr) == old {
			c.byResource.drop(gr)
		}
		if gk := (schema.GroupKind{Group: group, Kind: old.Kind}); c.byKind.get(gk) == old {
			c.byKind.drop(gk)
		}
	}
	if now == nil || now.retired != old.retired {
		c.retired = append(c.retired, old)
	}
}

func (r *Registry) change(edit func(*transition)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.current.Load()
	c := &transition{next: &Set{
		Generation: old.Generation + 1,
		all:        slices.Clone(old.all),
		byResource: old.byResource,
		byKind:     old.byKind,
		changed:    make(chan struct{}),
	}}
	c.byResource.index, c.byKind.index = &c.next.byResource, &c.next.byKind
	edit(c)
	r.current.Store(c.next)
	for _, d := range c.retired {
		close(d.retired)
	}
	close(old.changed)
}

// All returns the definitions. The caller must not change the slice.
func (s *Set) All() []*Definition { return s.all }

// Changed returns a channel that is closed when the registry has a newer set.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// Resource returns the definition of a resource, nil if it is not served.
func (s *Set) Resource(gr schema.GroupResource) *Definition { return s.byResource.get(gr) }

// Replaced reports whether the resource of d has another definition in this set.
func (s *Set) Replaced(d *Definition) bool {
	now := s.Resource(d.GroupResource())
	return now != nil && now.retired != d.retired
}

// Kind returns the definition of a kind, nil if it is not served.
func (s *Set) Kind(gk schema.GroupKind) *Definition { return s.byKind.get(gk) }
