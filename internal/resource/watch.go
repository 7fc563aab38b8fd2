package resource

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// A WatchEvent is an event that is sent to a client.
type WatchEvent struct {
	Type     watch.EventType // Added, Modified, Deleted or Bookmark
	Object   *object.Object  // nil in a bookmark
	Revision object.Revision // the resourceVersion to show
	// InitialEventsEnd marks the bookmark behind the initial events of a
	// streaming list.
	InitialEventsEnd bool
}

// A Watch is a stream of events for one client. It holds only a position in the log. It is not safe
// for concurrent use.
type Watch struct {
	store     *Store
	selection *selection
	cursor    *state.Cursor
	initial   []*object.Object // still to be sent as Added
	first     []state.Event    // read already
	endMark   bool             // the initial events end with a bookmark
	started   object.Revision
	failed    error           // the error of Next; nil before
	behind    object.Revision // up to which the client has received all events when a conversion failed
}

// Watch returns the events after a revision. They begin with the current objects if the client
// names no revision, or requests initial events.
//
// As in Kubernetes, a request whose parameters are valid fails only with an event: other errors are
// returned by Next.
func (s *Store) Watch(ctx context.Context, r *Request, o WatchOptions) (*Watch, error) {
	sel, err := newSelection(r, o.Labels, o.Fields)
	if err != nil {
		return nil, err
	}
	at, err := parseRevision(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if err := s.readable(r); err != nil {
		return nil, err
	}
	initial := at == 0
	if o.SendInitialEvents != nil {
		initial = *o.SendInitialEvents
	}
	w := &Watch{store: s, selection: sel, started: at}
	gr := r.Definition.GroupResource()
	if initial {
		if w.failed = s.reach(ctx, r, o.ResourceVersion, at); w.failed != nil {
			return w, nil
		}
		snap := s.state.Snapshot(gr)
		p := page{ctx: ctx, r: r, selection: sel}
		for o, may := range snap.Sift(sel.sieve(), sel.namespace, sel.namespace, "") {
			if !p.add(o, may) {
				break
			}
		}
		if p.convert(); p.err != nil {
			return nil, watchError(r, p.err)
		}
		w.initial = p.objects
		at = snap.Revision
		w.endMark = o.SendInitialEvents != nil && o.Bookmarks
	} else if at == 0 {
		if w.failed = s.reach(ctx, r, o.ResourceVersion, at); w.failed != nil {
			return w, nil
		}
		at = s.state.Revision()
	}
	w.started = at
	if w.cursor, err = s.state.Watch(gr, at); err == nil && !initial {
		// Events that are not in memory are read, or rejected, before the stream begins.
		w.first, _, err = w.cursor.Next(ctx)
		if errors.Is(err, journal.ErrUnavailable) {
			return nil, unavailable(err)
		}
		if len(w.first) > 0 {
			if err := w.convert(ctx, &w.first[0]); err != nil {
				return nil, watchError(r, err)
			}
		}
	}
	w.failed = w.failure(err)
	return w, nil
}

// ErrEnds is returned by Watch.Next when the journal cannot be read at the moment, or a webhook
// does not convert. The stream ends, as it does in Kubernetes then, and a client that watches again
// from its last resourceVersion continues there.
var ErrEnds = errors.New("the watch cannot continue")

// Next returns the next events to send. If there are none, it returns a channel that is closed when
// there may be some. An error must be sent as an event, and ends the watch.
func (w *Watch) Next(ctx context.Context) ([]WatchEvent, <-chan struct{}, error) {
	if w.failed != nil {
		return nil, nil, w.failed
	}
	if w.initial != nil || w.endMark {
		return w.initialEvents(), nil, nil
	}
	for {
		changes, wait, err := w.next(ctx)
		if errors.Is(err, journal.ErrUnavailable) {
			return nil, nil, ErrEnds
		}
		if err != nil {
			return nil, nil, w.failure(err)
		}
		if len(changes) == 0 {
			return nil, wait, nil
		}
		events := make([]WatchEvent, 0, len(changes))
		for i := range changes {
			if w.convert(ctx, &changes[i]) != nil {
				w.failed, w.behind = ErrEnds, changes[i].Revision-1
				break
			}
			if e, ok := w.translate(&changes[i]); ok {
				events = append(events, e)
			}
		}
		if len(events) == 0 && w.failed != nil {
			return nil, nil, w.failed
		}
		if len(events) > 0 {
			return events, nil, nil
		}
	}
}

func (w *Watch) next(ctx context.Context) ([]state.Event, <-chan struct{}, error) {
	if first := w.first; len(first) > 0 {
		w.first = nil
		return first, nil, nil
	}
	return w.cursor.Next(ctx)
}

// Revision returns the resourceVersion of a bookmark: the client has been sent all events up to it.
func (w *Watch) Revision() object.Revision {
	switch {
	case w.cursor == nil:
		return w.started
	case w.behind > 0:
		return w.behind
	}
	return max(w.cursor.Revision(), w.started)
}

func (w *Watch) initialEvents() []WatchEvent {
	events := make([]WatchEvent, 0, len(w.initial)+1)
	for _, o := range w.initial {
		events = append(events, WatchEvent{Type: watch.Added, Object: o, Revision: o.Revision})
	}
	if w.endMark {
		events = append(events, WatchEvent{Type: watch.Bookmark, Revision: w.started, InitialEventsEnd: true})
	}
	w.initial, w.endMark = nil, false
	return events
}

// convert converts an event to the version of the watch: the objects that are sent, and those that
// selectors match. The slice of events belongs to the cursor.
func (w *Watch) convert(ctx context.Context, c *state.Event) (err error) {
	sel := w.selection
	if sel.definition.Webhook == nil || !sel.mayMatch(c.Last()) {
		return nil
	}
	if c.Prev != nil && (c.Object == nil || sel.labels != nil || sel.fields != nil) {
		if c.Prev, err = w.store.shared.convert(ctx, sel.definition, sel.version, c.Prev); err != nil {
			return err
		}
	}
	if c.Object != nil {
		c.Object, err = w.store.shared.convert(ctx, sel.definition, sel.version, c.Object)
	}
	return err
}

// translate returns the event of a change for a client that sees only the selection: an object that
// enters it is added, one that leaves it is deleted, with its last selected state and the revision
// of the change.
func (w *Watch) translate(c *state.Event) (WatchEvent, bool) {
	is, was := w.selection.matches(c.Object), w.selection.matches(c.Prev)
	switch {
	case is && was:
		return WatchEvent{Type: watch.Modified, Object: c.Object, Revision: c.Revision}, true
	case is:
		return WatchEvent{Type: watch.Added, Object: c.Object, Revision: c.Revision}, true
	case was:
		return WatchEvent{Type: watch.Deleted, Object: c.Prev, Revision: c.Revision}, true
	}
	return WatchEvent{}, false
}

// failure returns the error for clients for one of the state machine.
func (w *Watch) failure(err error) error {
	var old *state.CompactedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &old):
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", old.Wanted, old.Oldest))
	}
	return apierrors.NewInternalError(err)
}
