package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// An Event is a change of an object: watch.Added, watch.Modified or watch.Deleted. Object is the
// state after the change, or the last state of a deleted object.
type Event[T Object] struct {
	Type   watch.EventType
	Object T
}

// A watch that ends before this time is followed by the next one after a delay, which doubles with
// every watch in a row without an event.
const (
	rewatchFirst = time.Second
	rewatchLast  = 30 * time.Second
)

// Watch returns an Added event for each existing object, and then an event for each change, until
// ctx ends or the caller leaves the loop. A watch that ends or breaks is resumed where it was. The
// iteration ends after an error: the first watch failed, the server rejects a further one, or the
// server has dropped the events of a long interruption (410, apierrors.IsResourceExpired). A watch
// that breaks before all existing objects were reported starts again, so that some may be reported
// twice.
//
// With a resourceVersion in ListOptions.Raw, only changes after it are reported. Long-running
// programs should use a cache instead.
func (h *Handle[T]) Watch(ctx context.Context, opts ...ListOption) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		err := h.watch(ctx, opts, yield)
		if err != nil && err != errLeft && ctx.Err() == nil {
			yield(Event[T]{}, err)
		}
	}
}

// errLeft says that the caller has left the loop.
var errLeft = errors.New("left")

func (h *Handle[T]) watch(ctx context.Context, opts []ListOption, yield func(Event[T], error) bool) error {
	client, ok := h.client.(WithWatch)
	if !ok {
		return fmt.Errorf("watch: %T cannot watch: see NewWithWatch", h.client)
	}
	list, err := h.emptyList()
	if err != nil {
		return err
	}
	o, err := h.listOptions(opts)
	if err != nil {
		return err
	}
	w := &rewatch[T]{client: client, list: list, options: *o, marks: true, yield: yield}
	if o.Raw != nil && o.Raw.ResourceVersion != "0" {
		w.revision = o.Raw.ResourceVersion
	}
	delay := rewatchFirst
	for first := true; ; first = false {
		began, told := time.Now(), w.told
		err := w.once(ctx)
		switch {
		case err == errLeft || ctx.Err() != nil:
			return err
		case w.marks && w.revision == "" && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)):
			w.marks = false // an older server
			continue
		case err != nil && (first || !isTransient(err)):
			return err
		}
		if w.told > told {
			delay = rewatchFirst
		}
		if !pause(ctx, rand.N(delay/2)+delay/2-time.Since(began)) {
			return ctx.Err()
		}
		delay = min(2*delay, rewatchLast)
	}
}

// A rewatch resumes a watch where the one before has ended.
type rewatch[T Object] struct {
	client   WithWatch
	list     ObjectList
	options  ListOptions
	marks    bool   // request a bookmark at the end of the existing objects
	revision string // where to resume; "" until all existing objects are reported
	told     int    // events
	yield    func(Event[T], error) bool
}

// once watches until the server or the caller ends it.
func (w *rewatch[T]) once(ctx context.Context) error {
	o := w.options
	o.Raw = &metav1.ListOptions{}
	if w.options.Raw != nil {
		o.Raw = w.options.Raw.DeepCopy()
	}
	o.Raw.ResourceVersion = w.revision
	o.Raw.AllowWatchBookmarks = true
	if w.revision == "" && w.marks {
		o.Raw.SendInitialEvents = new(true)
		o.Raw.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	events, err := w.client.Watch(ctx, w.list, &o)
	if err != nil {
		return err
	}
	defer func() {
		events.Stop()
		for range events.ResultChan() { // until its goroutine has ended
		}
	}()
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		obj, ok := event.Object.(T)
		if !ok {
			return fmt.Errorf("watch of %T: the event %s has a %T", *new(T), event.Type, event.Object)
		}
		if event.Type == watch.Bookmark {
			if w.revision != "" || !w.marks || obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				w.revision = obj.GetResourceVersion()
			}
			continue
		}
		if w.revision != "" {
			w.revision = obj.GetResourceVersion()
		}
		w.told++
		if !w.yield(Event[T]{event.Type, obj}, nil) {
			return errLeft
		}
	}
	return nil
}

// isTransient reports whether a retry may succeed.
func isTransient(err error) bool {
	if apierrors.HasStatusCause(err, "ClientWatchDecoding") {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // the connection
	}
	code := status.Status().Code
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// pause waits, and reports whether to go on.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
