package state

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An UnreadableError says that what a key holds is not known. It is no reason to
// take it for absent.
type UnreadableError struct {
	Key object.Key
	Err error
}

func (e *UnreadableError) Error() string { return fmt.Sprintf("%s cannot be read: %v", e.Key, e.Err) }
func (e *UnreadableError) Unwrap() error { return e.Err }

// Readable returns an UnreadableError if what a key holds is not known.
func (s *State) Readable(key object.Key) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.mu.unreadable[key]; err != nil {
		return &UnreadableError{key, err}
	}
	return nil
}

// AllReadable returns an UnreadableError if there is an object of a resource, or of
// any with the zero value, of which it is not known what it is.
func (s *State) AllReadable(resource schema.GroupResource) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.allReadableLocked(resource)
}

// setUnreadable returns the channels to close: of who follows the resource.
func (s *State) setUnreadable(key object.Key, why error) []chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tableLocked(key.Resource).mark.n.Add(1)
	if why == nil {
		delete(s.mu.unreadable, key)
		return nil
	}
	if s.mu.unreadable == nil {
		s.mu.unreadable = map[object.Key]error{}
	}
	s.mu.unreadable[key] = why
	return s.renewLocked(s.tableLocked(key.Resource).renew(nil))
}

func (s *State) allReadableLocked(resource schema.GroupResource) error {
	for key, err := range s.mu.unreadable {
		if key.Resource == resource || resource.Empty() {
			return &UnreadableError{key, err}
		}
	}
	return nil
}
