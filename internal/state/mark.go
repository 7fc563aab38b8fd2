package state

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Mark changes with every change of a resource's objects. Whoever makes something of
// these objects keeps the mark of before it has looked at them, and what it has made is
// good as long as the mark is the same.
type Mark struct{ n atomic.Uint64 }

// Load returns the mark as a number, that of an empty resource which has never had
// objects is 0. It waits for nobody.
func (m *Mark) Load() uint64 { return m.n.Load() }

// Mark returns the mark of a resource. It is always the same one.
func (s *State) Mark(resource schema.GroupResource) *Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &s.tableLocked(resource).mark
}
