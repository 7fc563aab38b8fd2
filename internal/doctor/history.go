package doctor

import (
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// history follows the events of each resource, as a watcher would, from the oldest
// one on: they must lead to the objects that there are.
func (e *examination) history() error {
	for _, table := range e.tables {
		for o := range table.All("") {
			if err := e.historyOf(o.Key.Resource, table); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

func (e *examination) historyOf(resource schema.GroupResource, table state.Snapshot) error {
	for range patience {
		walk := walk{e: e, resource: resource, held: map[object.Key]object.Revision{}}
		err := walk.run(table)
		if errors.Is(err, journal.ErrCompacted) {
			continue // it left while it was read
		}
		if err == nil {
			e.report.AddAll(walk.found)
		}
		return err
	}
	return nil
}

// walk is one walk along the history of a resource.
type walk struct {
	e        *examination
	resource schema.GroupResource
	begin    object.Revision                // history is complete after it
	held     map[object.Key]object.Revision // what the keys of events are at now; 0 if gone
	found    []journal.Problem
}

func (w *walk) run(table state.Snapshot) error {
	st := w.e.state
	cursor, err := st.Watch(w.resource, 0)
	if compacted := (*state.CompactedError)(nil); errors.As(err, &compacted) {
		w.begin = compacted.Oldest
		cursor, err = st.Watch(w.resource, w.begin)
	}
	if err != nil {
		return err
	}
	last := w.begin
	for cursor.Revision() < w.e.revision {
		if err := w.e.ctx.Err(); err != nil {
			return err
		}
		events, wait, err := cursor.Next(w.e.ctx)
		if err != nil {
			return err
		}
		for i := range events {
			event := &events[i]
			if event.Revision > w.e.revision {
				break
			}
			if event.Revision <= last {
				w.problem(event, "its event is out of order: it follows revision %d", last)
			}
			last = event.Revision
			w.event(event)
		}
		if wait != nil {
			break
		}
	}
	for key, revision := range w.held {
		at := object.Revision(0)
		if o := table.Get(key.Namespace, key.Name); o != nil {
			at = o.Revision
		}
		if at != revision {
			w.found = append(w.found, journal.Problem{Key: key,
				Text: fmt.Sprintf("its last event left %s, but the store has %s", described(revision), described(at))})
		}
	}
	return nil
}

// event compares one event with the result of those before it.
func (w *walk) event(event *state.Event) {
	key := event.Last().Key
	if key.Resource != w.resource {
		w.problem(event, "its event is in the history of %s", w.resource)
	}
	if event.Object != nil && event.Object.Revision != event.Revision {
		w.problem(event, "its event has the object at revision %d", event.Object.Revision)
	}
	replaced := object.Revision(0)
	if event.Prev != nil {
		replaced = event.Prev.Revision
	}
	held, seen := w.held[key]
	switch {
	case seen && held != replaced:
		w.problem(event, "its event replaces %s, but the previous event left %s", described(replaced), described(held))
	case !seen && replaced > w.begin:
		w.problem(event, "its event replaces %s, for which there is no event", described(replaced))
	}
	w.held[key] = 0
	if event.Object != nil {
		w.held[key] = event.Revision
	}
}

func (w *walk) problem(event *state.Event, format string, args ...any) {
	w.found = append(w.found, journal.Problem{Key: event.Last().Key, Revision: event.Revision, Text: fmt.Sprintf(format, args...)})
}

func described(r object.Revision) string {
	if r == 0 {
		return "no object"
	}
	return fmt.Sprintf("revision %d", r)
}
