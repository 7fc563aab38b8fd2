package resource

import (
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Registry holds the definitions that are served. Readers take a Set, which
// never changes.
type Registry struct {
	mu      sync.Mutex // serialises changes
	current atomic.Pointer[Set]
}

// A Set is all definitions at one time.
type Set struct {
	// Generation grows with each change of the registry.
	Generation uint64

	all        []*Definition // in the order in which they came
	byResource map[schema.GroupResource]*Definition
	byKind     map[schema.GroupKind]*Definition
	changed    chan struct{}
}

// NewRegistry returns a registry of the given definitions.
func NewRegistry(definitions ...*Definition) *Registry {
	r := &Registry{}
	r.current.Store(newSet(0, nil))
	r.Put(definitions...)
	return r
}

func newSet(generation uint64, all []*Definition) *Set {
	s := &Set{
		Generation: generation,
		all:        all,
		byResource: make(map[schema.GroupResource]*Definition, len(all)),
		byKind:     make(map[schema.GroupKind]*Definition, len(all)),
		changed:    make(chan struct{}),
	}
	for _, d := range all {
		s.byResource[d.GroupResource()] = d
		s.byKind[d.GroupKind()] = d
	}
	return s
}

// Load returns the definitions of now.
func (r *Registry) Load() *Set { return r.current.Load() }

// Put adds definitions, or replaces those of the same resources, whose watches end
// unless the new one was made of the old one.
func (r *Registry) Put(definitions ...*Definition) {
	r.change(func(all []*Definition) []*Definition {
		at := make(map[schema.GroupResource]int, len(all))
		for i, d := range all {
			at[d.GroupResource()] = i
		}
		for _, d := range definitions {
			i, replaces := at[d.GroupResource()]
			if !replaces || d.retired == nil || all[i].retired != d.retired {
				d.retired = make(chan struct{})
			}
			if replaces {
				all[i] = d
				continue
			}
			at[d.GroupResource()] = len(all)
			all = append(all, d)
		}
		return all
	})
}

// Remove drops the definition of a resource, if there is one.
func (r *Registry) Remove(gr schema.GroupResource) {
	r.change(func(all []*Definition) []*Definition {
		return slices.DeleteFunc(all, func(d *Definition) bool { return d.GroupResource() == gr })
	})
}

func (r *Registry) change(edit func([]*Definition) []*Definition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.current.Load()
	next := newSet(old.Generation+1, edit(slices.Clone(old.all)))
	r.current.Store(next)
	for _, d := range old.all {
		if now := next.byResource[d.GroupResource()]; now == nil || now.retired != d.retired {
			close(d.retired)
		}
	}
	close(old.changed)
}

// All returns the definitions; the caller does not change the slice.
func (s *Set) All() []*Definition { return s.all }

// Changed is closed when the registry has a newer set.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// Resource returns the definition of a resource, nil if it is not served.
func (s *Set) Resource(gr schema.GroupResource) *Definition { return s.byResource[gr] }

// Kind returns the definition of a kind, nil if it is not served.
func (s *Set) Kind(gk schema.GroupKind) *Definition { return s.byKind[gk] }
