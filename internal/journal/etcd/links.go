package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kapok-dev/kapok/internal/journal"
)

// links is the link of the moment.
type links struct {
	mu struct {
		sync.Mutex
		now     *link
		cluster uint64        // identity of the etcd of all links
		down    chan struct{} // closed while no member answers
		cause   error         // of that
		changed chan struct{} // closed at each change of the above
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

// clear says that there is no link; one may come soon.
func (s *links) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.now = nil
}

// fail says that no member answers. It returns false if that is known.
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

// err returns why no member answers; nil unless the journal is down.
func (s *links) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return publicCause(s.mu.cause)
}

// unusableError is about an etcd that answers, and cannot be used.
type unusableError struct{ text string }

func (e *unusableError) Error() string { return e.text }

// publicCause is why there is no link, as clients may see it: without addresses.
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

// get returns the link, and waits for it if it may come soon. The error is ctx's,
// or why the journal is down.
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

// first waits for a link also where none can be had at once.
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
