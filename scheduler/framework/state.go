package framework

// CycleState has values that plugins keep during one attempt to schedule a pod. Its methods are not
// safe for concurrent use; those of plugins that have the same CycleState are called one after
// another.
type CycleState struct{ values map[string]any }

// NewCycleState returns a state without values. It is for tests of plugins.
func NewCycleState() *CycleState { return &CycleState{values: map[string]any{}} }

// Read returns a value, nil if there is none. Keys are usually names of plugins.
func (s *CycleState) Read(key string) any { return s.values[key] }

// Write sets a value.
func (s *CycleState) Write(key string, value any) { s.values[key] = value }

// Delete removes a value.
func (s *CycleState) Delete(key string) { delete(s.values, key) }
