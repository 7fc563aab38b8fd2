package linear

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// A watcher follows a kind. When a connection ends it opens another one, to any endpoint, at its
// position; if the history is gone, it lists and begins a new stream.
type watcher struct {
	client // for its lists
	kind   Kind
	// Restless watchers close connections, and sometimes begin a new stream with a list or from an
	// old revision.
	restless bool

	position    atomic.Uint64
	connections int
	relists     int
	streams     []Stream
}

// work runs until the context is done.
func (w *watcher) work(ctx context.Context, from Revision) {
	w.begin(from)
	for ctx.Err() == nil {
		gone := w.follow(ctx)
		dice := 2
		if w.restless {
			dice = w.random.IntN(10)
		}
		switch {
		case gone || dice == 0:
			w.relist(ctx)
		case dice == 1:
			w.goBack()
		default:
			w.pause(ctx, w.random)
		}
	}
	w.current().Last = true
}

// goBack begins a new stream from an earlier revision of this one, unless the run is ending.
func (w *watcher) goBack() {
	const most = 500 // maximum number of repeated events
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending {
		return
	}
	if events := w.current().Events; len(events) > 0 {
		recent := events[max(0, len(events)-most):]
		w.begin(recent[w.random.IntN(len(recent))].Object.Revision)
	}
}

func (w *watcher) current() *Stream { return &w.streams[len(w.streams)-1] }

func (w *watcher) begin(from Revision) {
	w.streams = append(w.streams, Stream{Watcher: w.id, Kind: w.kind, From: from})
	w.moved()
}

// moved notifies the waiting goroutine of the watcher's position.
func (w *watcher) moved() {
	w.position.Store(uint64(w.current().position()))
	select {
	case w.progress <- struct{}{}:
	default: // it is notified already
	}
}

// follow watches over one connection until it ends. It reports whether the history is gone.
func (w *watcher) follow(ctx context.Context) (gone bool) {
	// A connection can hang; that of a healthy server ends before this timeout.
	seconds := 5 + w.random.IntN(10)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds+5)*time.Second)
	defer cancel()
	events := -1 // number of events until it closes the connection; -1 for never
	if w.restless {
		events = w.random.IntN(200)
	}
	path := fmt.Sprintf("%s?watch=true&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%d",
		w.kind.collection(w.namespace), seconds, w.current().position())
	e := w.endpoint(w.random)
	resp, err := e.send(ctx, http.MethodGet, path, "", "")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	w.connections++
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusGone:
		return true
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	default:
		if resp.StatusCode != http.StatusInternalServerError || !w.config.Unreadable {
			w.fail("watcher %d at %s: %s: %s", w.id, e.Name, path, resp.Status)
		}
		return false
	}
	for stream := json.NewDecoder(resp.Body); events != 0; events-- {
		var next struct {
			Type   EventType
			Object wire
		}
		if stream.Decode(&next) != nil {
			return false
		}
		switch next.Type {
		case Added, Modified, Deleted, Bookmark:
			w.note(Event{Type: next.Type, Name: next.Object.Metadata.Name, Object: next.Object.object(), Seen: w.now()})
		default:
			if next.Object.Code == http.StatusGone {
				return true
			}
			if next.Type != "ERROR" {
				w.fail("watcher %d at %s: an event of type %q", w.id, e.Name, next.Type)
			}
			return false
		}
	}
	return false
}

func (w *watcher) note(e Event) {
	s := w.current()
	s.Events = append(s.Events, e)
	w.moved()
}

// relist begins a new stream with a list, which counts as an operation.
func (w *watcher) relist(ctx context.Context) {
	w.relists++
	for ctx.Err() == nil {
		o := Operation{Client: w.id, Verb: List, Key: Key{Kind: w.kind}, Mode: Latest}
		w.perform(ctx, &o)
		if o.Outcome == Done {
			w.begin(o.Pages[0].Revision)
			return
		}
		w.pause(ctx, w.random)
	}
}
