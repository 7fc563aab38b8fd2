package state

import "slices"

// A Feed collects the events of all resources that pass its filter, in the order of revisions,
// until they are taken. Unlike a [Cursor] it never loses events, however long that takes: only the
// filter limits its memory.
type Feed struct {
	state   *State
	keep    func(*Event) bool
	events  []Event       // guarded by the State's lock, as changed is
	changed chan struct{} // closed at the next event; nil if no reader waits
}

// Feed returns a feed of the events after the newest visible revision. keep is called under the
// State's lock: it must be fast and must not call methods of the State.
func (s *State) Feed(keep func(*Event) bool) *Feed {
	f := &Feed{state: s, keep: keep}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.feeds = append(s.mu.feeds, f)
	return f
}

// Take returns the events since the last call. If there are none, it returns a channel that is
// closed at the next event.
func (f *Feed) Take() ([]Event, <-chan struct{}) {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	if len(f.events) > 0 {
		events := f.events
		f.events = nil
		return events, nil
	}
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return nil, f.changed
}

// Close ends the feed.
func (f *Feed) Close() {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	f.state.mu.feeds = slices.DeleteFunc(f.state.mu.feeds, func(g *Feed) bool { return g == f })
	f.events = nil
}

func (f *Feed) offerLocked(e Event) {
	if e.Last() == nil || !f.keep(&e) {
		return
	}
	f.events = append(f.events, e)
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}
