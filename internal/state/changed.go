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

func (s *State) wakeLocked() {
	if s.mu.changed != nil {
		close(s.mu.changed)
		s.mu.changed = nil
	}
}
