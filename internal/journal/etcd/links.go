package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kapok-dev/kapok/internal/journal"
)

// links holds the current link.
type links struct {
	mu struct {
		sync.Mutex
		now     *link
		cluster uint64        // cluster ID of all links
		down    chan struct{} // closed while no member answers
		cause   error         // why none answers
		changed chan struct{} // closed at each change of the fields above
	}
}

func (s *links) init() {
	s.mu.down, s.mu.changed = make(chan struct{}), make(chan struct{})
}

func (s *links) changedLocked() {
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

func (s *links) set(l *link, cluster uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.cause != nil {
		s.mu.down, s.mu.cause = make(chan struct{}), nil
	}
	s.mu.now, s.mu.cluster = l, cluster
	s.changedLocked()
}

// clear records that there is no link; a new one may be found soon.
func (s *links) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.now = nil
}

// fail records that no member answers. It returns false if that was already known.
func (s *links) fail(cause error) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.cause == nil {
		news = true
		close(s.mu.down)
	}
	s.mu.cause = cause
	s.changedLocked()
	return news
}

// err returns why no member answers, or nil unless the journal is down.
func (s *links) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return publicCause(s.mu.cause)
}

// unusableError reports an etcd that answers but cannot be used.
type unusableError struct{ text string }

func (e *unusableError) Error() string { return e.text }

// publicCause returns why there is no link, as clients may see it: without addresses.
func publicCause(cause error) error {
	var unusable *unusableError
	switch {
	case cause == nil:
		return nil
	case errors.As(cause, &unusable):
		return unusable
	}
	return errUnreachable
}

// isDown returns a channel that is closed while the journal is down.
func (s *links) isDown() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.down
}

func (s *links) identity() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.cluster
}

// get returns the link, and waits if one may be found soon. The error is the context's, or the
// reason why the journal is down.
func (s *links) get(ctx context.Context) (*link, error) {
	for {
		s.mu.Lock()
		now, cause, changed := s.mu.now, s.mu.cause, s.mu.changed
		s.mu.Unlock()
		switch {
		case now != nil:
			return now, nil
		case cause != nil:
			return nil, publicCause(cause)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// first waits for the first link, also while no member answers.
func (s *links) first(ctx context.Context) error {
	for {
		s.mu.Lock()
		now, cause, changed := s.mu.now, s.mu.cause, s.mu.changed
		s.mu.Unlock()
		if now != nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if cause != nil {
				return fmt.Errorf("%w: %w", journal.ErrUnavailable, cause)
			}
			return ctx.Err()
		}
	}
}
