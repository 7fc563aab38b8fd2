package cache

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"
)

// An eventKind is the kind of an event for a handler.
type eventKind int

const (
	addition eventKind = iota
	change
	removal
	everything // of a snapshot, as additions
	again      // of a snapshot, as changes to what they are
	allTold    // the end of the objects that existed at the start
)

// An event is a pending call of a handler. Its objects are decoded when the call is made.
type event struct {
	kind       eventKind
	old, entry *entry
	initial    bool
	unknown    bool
	alone      bool // an initial one that no other handler gets
	snapshot   *store
}

// A handler calls an EventHandler in a goroutine of its own. Pending events wait in an unbounded
// queue.
type handler struct {
	EventHandler
	informer *informer
	resync   time.Duration
	metadata bool
	ready    chan struct{} // has a token if the queue is not empty
	stop     chan struct{} // closed to end the goroutine
	done     chan struct{} // closed when it has ended

	mu struct {
		sync.Mutex
		queue   []event
		synced  bool
		started bool
		ended   bool
	}
}

// AddEventHandler implements Informer.
func (inf *informer) AddEventHandler(to EventHandler, opts ...HandlerOption) (Registration, error) {
	o := HandlerOptions{ResyncPeriod: inf.resync}
	for _, opt := range opts {
		opt(&o)
	}
	h := &handler{EventHandler: to, informer: inf, resync: o.ResyncPeriod, metadata: o.MetadataOnly,
		ready: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.mu.stopped {
		return nil, errStopped
	}
	h.push(event{kind: everything, snapshot: inf.snapshotLocked()})
	if inf.mu.synced {
		h.push(event{kind: allTold})
	}
	inf.mu.handlers = append(slices.Clip(inf.mu.handlers), h)
	if inf.mu.running {
		h.start()
	}
	return h, nil
}

// RemoveEventHandler implements Informer.
func (inf *informer) RemoveEventHandler(r Registration) error {
	h, ok := r.(*handler)
	if !ok || h.informer != inf {
		return errors.New("the registration belongs to another informer")
	}
	inf.mu.Lock()
	inf.mu.handlers = slices.DeleteFunc(slices.Clone(inf.mu.handlers), func(other *handler) bool { return other == h })
	inf.mu.Unlock()
	h.end()
	return nil
}

// HasSynced implements Registration.
func (h *handler) HasSynced() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.synced
}

// start is called at most once, by the informer with its lock held.
func (h *handler) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.mu.started && !h.mu.ended {
		h.mu.started = true
		go h.run()
	}
}

// end returns after the last call of the handler. It can be called more than once.
func (h *handler) end() {
	h.mu.Lock()
	if !h.mu.ended {
		h.mu.ended = true
		close(h.stop)
	}
	started := h.mu.started
	h.mu.Unlock()
	if started {
		<-h.done
	}
}

func (h *handler) push(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.queue = append(h.mu.queue, e)
	select {
	case h.ready <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (h *handler) take() []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := h.mu.queue
	h.mu.queue = nil
	return events
}

func (h *handler) run() {
	defer close(h.done)
	var resync <-chan time.Time
	if h.resync > 0 {
		ticker := time.NewTicker(h.resync)
		defer ticker.Stop()
		resync = ticker.C
	}
	for {
		select {
		case <-h.stop:
			return
		case <-resync:
			h.informer.tellAgain(h)
		case <-h.ready:
			events := h.take()
			for i, e := range events {
				events[i] = event{}
				if !h.tell(e) {
					return
				}
			}
		}
	}
}

// tellAgain queues updates of all objects, behind the pending events.
func (inf *informer) tellAgain(h *handler) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.mu.synced {
		h.push(event{kind: again, snapshot: inf.snapshotLocked()})
	}
}

// tell calls the handler, unless it has ended.
func (h *handler) tell(e event) bool {
	select {
	case <-h.stop:
		return false
	default:
	}
	switch e.kind {
	case allTold:
		h.mu.Lock()
		h.mu.synced = true
		h.mu.Unlock()
		h.informer.notify()
	case everything, again:
		alone := h.informer.countHandlers() == 1
		for kept := range e.snapshot.all("") {
			each := event{kind: addition, entry: kept, initial: true, alone: alone}
			if e.kind == again {
				each = event{kind: change, old: kept, entry: kept}
			}
			if !h.tell(each) {
				return false
			}
		}
	case addition:
		if obj, ok := h.decode(e.entry, e.alone); ok {
			h.OnAdd(obj, e.initial)
		}
	case change:
		old, ok := h.decode(e.old, false)
		obj, okay := h.decode(e.entry, false)
		switch {
		case ok && okay:
			h.OnUpdate(old, obj)
		case okay:
			h.OnAdd(obj, false)
		}
	case removal:
		if obj, ok := h.decode(e.entry, false); ok {
			h.OnDelete(obj, e.unknown)
		}
	}
	return true
}

// decode returns an object for the handler. An object that cannot be decoded is logged and skipped.
func (h *handler) decode(e *entry, alone bool) (client.Object, bool) {
	var obj client.Object
	var err error
	switch kind := h.informer.kind; {
	case h.metadata:
		obj, err = kind.decodeMetadata(e)
	case kind.events:
		obj, err = kind.shareAnd(e, !alone)
	default:
		obj, err = kind.decode(e)
	}
	if err != nil {
		h.informer.log.Warn("Cannot decode an object for a handler", "object", e.key().String(), "error", err)
		return nil, false
	}
	return obj, true
}

// countHandlers returns the number of handlers.
func (inf *informer) countHandlers() int {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return len(inf.mu.handlers)
}

func (inf *informer) notify() {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	inf.notifyLocked()
}
