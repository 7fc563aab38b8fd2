package state

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An UnreadableError reports that the content of a key is unknown. The key must not be treated as
// absent.
type UnreadableError struct {
	Key object.Key
	Err error
}

// Error implements error.
func (e *UnreadableError) Error() string { return fmt.Sprintf("%s cannot be read: %v", e.Key, e.Err) }

// Unwrap returns the cause, for [errors.Is] and [errors.As].
func (e *UnreadableError) Unwrap() error { return e.Err }

// Readable returns an UnreadableError if the content of a key is unknown.
func (s *State) Readable(key object.Key) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.mu.unreadable[key]; err != nil {
		return &UnreadableError{key, err}
	}
	return nil
}

// AllReadable returns an UnreadableError if the content of any object of a resource is unknown; the
// zero value means all resources.
func (s *State) AllReadable(resource schema.GroupResource) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.allReadableLocked(resource)
}

// setUnreadable returns the channels to close, those of the resource's followers.
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
