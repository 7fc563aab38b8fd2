package state

import "github.com/kapok-dev/kapok/internal/object"

// Changed returns the newest revision, and a channel that is closed at the next revision of any
// resource.
func (s *State) Changed() (object.Revision, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.changed == nil {
		s.mu.changed = make(chan struct{})
	}
	return s.mu.head, s.mu.changed
}

// renewLocked appends the channel to close to dst, if a reader waits for it.
func (s *State) renewLocked(dst []chan struct{}) []chan struct{} {
	if s.mu.changed != nil {
		dst = append(dst, s.mu.changed)
		s.mu.changed = nil
	}
	return dst
}

// wake closes channels of tables and of the whole state. The caller must not hold the lock: the
// readers it wakes, which can be thousands, take the lock at once.
func wake(changed []chan struct{}) {
	for _, c := range changed {
		close(c)
	}
}
