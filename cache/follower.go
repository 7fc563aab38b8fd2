package cache

import (
	"context"
	"errors"
	"sync"

	"github.com/kapok-dev/kapok/cache/local"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

var errServerStopped = errors.New("the server has stopped")

// A follower is a reflector for the state of a server in this process. Its goroutine applies
// changes to the store, and readers apply those that have not been applied yet.
type follower struct {
	informer *informer
	source   int
	ctx      context.Context // of the goroutine
	backoff

	// mu is held while changes are read and applied, so that they are applied in order. It is locked
	// before all locks of the informer.
	mu      sync.Mutex
	options local.WatchOptions
	watch   local.Watch                   // nil: there is none
	ended   chan struct{}                 // closed when the watch has ended
	why     error                         // and why
	reached string                        // the progress of the store
	listed  bool                          // there was a list
	present map[types.NamespacedName]bool // the objects of the list that is being read; nil: there is none
}

// follow fills the store with the objects of a source until ctx ends. It returns false at once if
// the server of the process does not store the kind.
func (inf *informer) follow(ctx context.Context, source int) bool {
	f := &follower{informer: inf, source: source, ctx: ctx}
	inf.mu.Lock()
	s := &inf.mu.sources[source]
	f.options = local.WatchOptions{Resource: inf.mu.mapping.Resource, Namespace: s.namespace, Labels: s.LabelSelector, Fields: s.fields()}
	inf.mu.followers = append(inf.mu.followers, f)
	inf.mu.Unlock()
	for first := true; ctx.Err() == nil; first = false {
		err := f.open()
		if first && errors.Is(err, local.ErrElsewhere) {
			return false
		}
		if err == nil {
			err = f.run()
		}
		if ctx.Err() != nil || err == nil || errors.Is(err, local.ErrRetired) {
			continue // a reader may have begun the next watch
		}
		if errors.Is(err, local.ErrElsewhere) {
			err = apierrors.NewNotFound(f.options.Resource.GroupResource(), "") // the kind is gone, or not there yet
		}
		delay := f.delay(err)
		if isExpired(err) && f.fails == 1 {
			continue
		}
		inf.fail(err)
		inf.log.Warn("Failed to watch", "error", err, "retryAfter", delay)
		sleep(ctx, delay)
	}
	return true
}

// catchUp applies all changes to the store that were committed before the call, if the informer
// follows a state.
func (inf *informer) catchUp() {
	if inf.state == nil {
		return
	}
	inf.mu.RLock()
	followers := inf.mu.followers
	inf.mu.RUnlock()
	for _, f := range followers {
		f.pull()
	}
}

// open begins a watch, if there is none: where the last one has ended, or else with all objects.
func (f *follower) open() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != nil {
		return nil // of a reader
	}
	return f.openLocked()
}

func (f *follower) openLocked() error {
	w, err := f.informer.state.Watch(f.ctx, f.options)
	if err != nil {
		if isExpired(err) {
			f.options.ResourceVersion = ""
		}
		return err
	}
	f.watch, f.ended, f.why = w, make(chan struct{}), nil
	if f.present = nil; f.options.ResourceVersion == "" {
		f.present = map[types.NamespacedName]bool{}
	}
	return nil
}

// run applies changes until the watch ends, and returns why.
func (f *follower) run() error {
	f.mu.Lock()
	if f.watch == nil {
		defer f.mu.Unlock()
		return f.why
	}
	w, retired, ended := f.watch, f.watch.Retired(), f.ended
	f.mu.Unlock()
	for {
		wait := f.pull()
		select {
		case <-wait:
		case <-ended:
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.why
		case <-retired:
			f.pull() // what came before that, and the next watch if there is another definition
			f.end(w, local.ErrRetired)
		case <-f.informer.state.Stopped():
			f.end(w, errServerStopped)
		case <-f.ctx.Done():
			return f.ctx.Err()
		}
	}
}

// end ends a watch, if it has not ended yet.
func (f *follower) end(w local.Watch, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch == w {
		f.endLocked(why)
	}
}

func (f *follower) endLocked(why error) {
	if f.watch == nil {
		return
	}
	f.options.ResourceVersion = ""
	if f.present == nil && !isExpired(why) {
		f.options.ResourceVersion = f.watch.ResourceVersion()
	}
	f.watch, f.why = nil, why
	close(f.ended)
}

// pull applies the changes that have been committed. It returns a channel that is closed when there
// may be more; nil if the watch has ended.
func (f *follower) pull() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.watch
	wait, err := f.pullLocked()
	if !errors.Is(err, local.ErrRetired) && !isExpired(err) {
		return wait
	}
	switch failed := f.openLocked(); {
	case failed == nil:
		wait, _ = f.pullLocked() // at once: a reader must not miss a change
	case errors.Is(failed, local.ErrElsewhere):
		// The next definition has been removed already, and before it all objects: this watch, which
		// nothing has replaced then, has their deletions.
		f.watch, f.ended = w, make(chan struct{})
		if _, err := f.pullLocked(); err == nil {
			f.endLocked(local.ErrRetired)
		}
	}
	return wait
}

func (f *follower) pullLocked() (wait <-chan struct{}, err error) {
	for f.watch != nil {
		events, wait, err := f.watch.Next(f.ctx)
		if err != nil {
			f.endLocked(err)
			return nil, err
		}
		for i := range events {
			f.applyLocked(&events[i])
		}
		if len(events) > 0 {
			continue
		}
		if at := f.watch.ResourceVersion(); at != f.reached {
			f.reached = at
			f.informer.reach([]progress{{source: f.source, revision: at}})
		}
		return wait, nil
	}
	return nil, nil
}

func (f *follower) applyLocked(e *local.Event) {
	d := delta{deltaType: updated, source: f.source, initial: !f.listed}
	switch e.Type {
	case watch.Bookmark:
		f.listedLocked()
		return
	case watch.Deleted:
		d.deltaType = deleted
	}
	o := &e.Object
	d.entry = &entry{
		identity: identity{namespace: o.Namespace, name: o.Name, uid: o.UID, revision: o.ResourceVersion, deleting: o.Deleting},
		bare:     true, packed: packed{data: o.JSON},
	}
	if f.present != nil {
		f.present[d.key()] = true
	}
	f.informer.apply(d)
}

// listedLocked ends a list: objects that are not in it have been deleted.
func (f *follower) listedLocked() {
	inf := f.informer
	inf.mu.RLock()
	s := inf.mu.sources[f.source]
	inf.mu.RUnlock()
	for e := range inf.known(s) {
		if !f.present[e.key()] {
			inf.apply(delta{deltaType: deleted, entry: e, source: f.source, unknown: true})
		}
	}
	f.listed, f.present, f.reached = true, nil, f.watch.ResourceVersion()
	inf.reach([]progress{{source: f.source, revision: f.reached, list: true}})
}
