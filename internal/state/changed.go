package state

import "github.com/kapok-dev/kapok/internal/object"

// Changed returns the newest revision, and a channel that is closed when there is
// a newer one, of whatever resource.
func (s *State) Changed() (object.Revision, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.changed == nil {
		s.mu.changed = make(chan struct{})
	}
	return s.mu.head, s.mu.changed
}

// renewLocked appends to dst what is to be closed, if anybody waits for it.
func (s *State) renewLocked(dst []chan struct{}) []chan struct{} {
	if s.mu.changed != nil {
		dst = append(dst, s.mu.changed)
		s.mu.changed = nil
	}
	return dst
}

// wake closes channels, of tables and of the whole state. It is called without the
// lock: whoever wakes up wants it at once, and there may be thousands.
func wake(changed []chan struct{}) {
	for _, c := range changed {
		close(c)
	}
}
