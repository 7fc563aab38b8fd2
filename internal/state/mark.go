package state

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Mark changes with every change of a resource's objects. To cache a value that is computed from
// these objects, load the mark before reading them: the value is valid as long as the mark has not
// changed.
type Mark struct{ n atomic.Uint64 }

// Load returns the mark as a number, 0 for a resource that has never had objects. It does not
// block.
func (m *Mark) Load() uint64 { return m.n.Load() }

// Mark returns the mark of a resource, the same pointer for every call.
func (s *State) Mark(resource schema.GroupResource) *Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &s.tableLocked(resource).mark
}
