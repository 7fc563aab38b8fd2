package state

import "slices"

// A Feed collects the events of all resources that pass its filter, in the order of revisions, until somebody takes them.
// Unlike a [Cursor] it misses nothing, however long that takes: the filter is what bounds it.
type Feed struct {
	state   *State
	keep    func(*Event) bool
	events  []Event       // guarded by the State's lock, as changed is
	changed chan struct{} // closed at the next event; nil if nobody waits
}

// Feed returns a feed of the events after the revision that is visible now. keep is called under the State's lock: it must
// be quick, and call nothing of the State.
func (s *State) Feed(keep func(*Event) bool) *Feed {
	f := &Feed{state: s, keep: keep}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.feeds = append(s.mu.feeds, f)
	return f
}

// Take returns what has come in since the last call. Where that is nothing, it returns a channel that is closed when there
// is something.
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
