package reaper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A Reaper removes what nobody needs any longer. Start one with [Start].
type Reaper struct {
	store *resource.Store
	state *state.State
	log   *slog.Logger
	grace time.Duration // of namespaces
	feed  *state.Feed

	stop func()
	done sync.WaitGroup

	// The rest belongs to the goroutine.
	queue  queue
	gone   map[types.UID]struct{}  // owners seen to go, while objects name them
	parked map[object.Key]struct{} // until other kinds are served
	failed map[object.Key]int      // how often in a row
	timers timers
	ttls   *expiring // resources whose objects end by themselves
}

// Options are the settings of a Reaper.
type Options struct {
	Logger *slog.Logger
	// NamespaceGrace is how long a namespace keeps what is in it once it is being deleted. Who deletes the namespace and,
	// one by one, what is in it, as kubectl delete -f does, then finds it all.
	NamespaceGrace time.Duration
}

// Start looks at everything once, and then follows what changes until Close.
func Start(ctx context.Context, store *resource.Store, opts Options) *Reaper {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &Reaper{
		store: store, state: store.State(), log: opts.Logger, grace: opts.NamespaceGrace, stop: cancel,
		gone: map[types.UID]struct{}{}, parked: map[object.Key]struct{}{}, failed: map[object.Key]int{}, ttls: &expiring{},
	}
	set := store.Registry().Load()
	r.ttls.update(set)
	r.feed = r.state.Feed(r.matters)
	r.done.Go(func() {
		defer r.feed.Close()
		r.scan()
		r.run(ctx, set)
	})
	return r
}

// Close ends the reaper, and waits for it.
func (r *Reaper) Close() {
	r.stop()
	r.done.Wait()
}

// namespaces is the resource of namespaces.
var namespaces = schema.GroupResource{Resource: "namespaces"}

// matters is the filter of the feed. Most writes change neither owners nor what is being deleted.
func (r *Reaper) matters(e *state.Event) bool {
	return e.Object == nil || e.Object.Meta.Deleting() || ownersChange(e) || r.ttls.has(e.Object.Key.Resource) ||
		e.Prev != nil && e.Prev.Meta.UID != e.Object.Meta.UID
}

// ownersChange says whether an object has other owners now, or other terms with them.
func ownersChange(e *state.Event) bool {
	var before, after []object.Owner
	if e.Prev != nil {
		before = e.Prev.Meta.Owners
	}
	if e.Object != nil {
		after = e.Object.Meta.Owners
	}
	return !slices.Equal(before, after)
}

// scan queues everything that a reaper before may not have finished.
func (r *Reaper) scan() {
	for _, gr := range r.state.Resources() {
		for o := range r.state.Snapshot(gr).All("") {
			if len(o.Meta.Owners) > 0 || o.Meta.Deleting() {
				r.queue.add(o.Key)
			}
			r.expire(o)
		}
	}
}

func (r *Reaper) run(ctx context.Context, set *resource.Set) {
	for ctx.Err() == nil {
		events, wait := r.feed.Take()
		for i := range events {
			r.observe(&events[i])
		}
		if key, ok := r.queue.take(); ok {
			r.settle(key, r.process(ctx, key))
			continue
		}
		if len(events) > 0 {
			continue
		}
		alarm, stop := r.timers.alarm()
		select {
		case <-wait:
		case <-alarm:
			r.ring(ctx)
		case <-set.Changed():
			set = r.store.Registry().Load()
			if r.ttls.update(set) {
				r.scan()
			}
			for key := range r.parked {
				r.queue.add(key)
			}
			clear(r.parked)
		case <-ctx.Done():
		}
		stop()
	}
}

// observe queues what an event has an effect on.
func (r *Reaper) observe(e *state.Event) {
	last := e.Last()
	if o := e.Object; o != nil {
		if o.Meta.Deleting() || ownersChange(e) {
			r.queue.add(o.Key)
		}
		r.expire(o)
	} else {
		delete(r.parked, last.Key)
		if last.Key.Resource == pods {
			r.freed(last)
		}
	}
	if prev := e.Prev; prev != nil && (e.Object == nil || e.Object.Meta.UID != prev.Meta.UID) {
		for _, key := range r.state.Dependents(prev.Meta.UID) {
			r.gone[prev.Meta.UID] = struct{}{}
			r.queue.add(key)
		}
	}
	if e.Prev != nil && ownersChange(e) { // those of before may have waited for it
		for _, ref := range e.Prev.Meta.Owners {
			if _, gone := r.gone[ref.UID]; gone && len(r.state.Dependents(ref.UID)) == 0 {
				delete(r.gone, ref.UID)
			}
			if key, ok := r.ownerKey(e.Prev, ref); ok {
				r.queue.add(key)
			}
		}
	}
	if ns := last.Key.Namespace; ns != "" && (e.Object == nil || e.Object.Meta.Deleting()) {
		key := object.Key{Resource: namespaces, Name: ns}
		if o, _ := r.state.Get(key); o != nil && o.Meta.Deleting() {
			r.queue.add(key)
		}
	}
}

// errParked says that a key can only be judged when other kinds are served.
var errParked = errors.New("kind of an owner is not served")

// process looks at one object and does what there is to do about it.
func (r *Reaper) process(ctx context.Context, key object.Key) error {
	o, _ := r.state.Get(key)
	if o == nil {
		return nil
	}
	// An owner, or the content of a namespace, that cannot be read is there.
	if err := r.state.AllReadable(schema.GroupResource{}); err != nil {
		return err
	}
	d := r.store.Registry().Load().Resource(key.Resource)
	if d == nil {
		return errParked
	}
	i := item{Reaper: r, definition: d, object: o}
	if key.Resource == namespaces && o.Meta.Deleting() {
		if err := i.emptyNamespace(ctx); err != nil {
			return err
		}
	}
	if d.Hooks.Grace != nil && o.Meta.Deleting() && len(o.Meta.Finalizers) == 0 {
		return i.endGrace(ctx)
	}
	return i.collect(ctx)
}

// endGrace removes an object whose grace was over when it was marked as deleting:
// whoever did that may have stopped in between.
func (i *item) endGrace(ctx context.Context) error {
	obj, err := i.object.Tree()
	if err != nil {
		return err
	}
	if seconds, _, _ := unstructured.NestedInt64(obj, "metadata", "deletionGracePeriodSeconds"); seconds > 0 {
		return i.collect(ctx)
	}
	_, err = i.store.Delete(ctx, request(i.definition, i.object.Key, "", nil), &metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &i.object.Meta.UID},
	})
	return err
}

// The pauses before something that has failed is tried again.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Minute
)

// settle decides when a key is looked at again after it has been processed.
func (r *Reaper) settle(key object.Key, err error) {
	switch {
	case err == nil, apierrors.IsNotFound(err):
		delete(r.failed, key)
	case errors.Is(err, errParked):
		delete(r.failed, key)
		r.parked[key] = struct{}{}
	case errors.Is(err, context.Canceled):
	case apierrors.IsConflict(err):
		r.queue.add(key) // it has changed since
	default:
		n := r.failed[key]
		r.failed[key] = n + 1
		pause := min(firstRetry<<min(n, 12), lastRetry)
		r.log.Warn("cannot remove", "object", key.String(), "retry", pause, "error", err)
		r.timers.add(time.Now().Add(pause), key, false)
	}
}

// ring does what timers are due for.
func (r *Reaper) ring(ctx context.Context) {
	var ended []object.Key
	for _, t := range r.timers.due(time.Now()) {
		if t.ends {
			ended = append(ended, t.key)
		} else {
			r.queue.add(t.key)
		}
	}
	r.end(ctx, ended)
}

// manager is the name under which Kubernetes' own garbage collector manages fields.
const manager = "kube-controller-manager"

// Who Kubernetes' controllers are, which do what is done here. Admission is asked about what they write.
var (
	collector = account("generic-garbage-collector")
	emptier   = account("namespace-controller")
)

func account(name string) *auth.User {
	return &auth.User{
		Name:   "system:serviceaccount:kube-system:" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", auth.Authenticated},
	}
}

// request is one about an object, in the version in which it is stored if that is served. Nil is the server itself, which
// nobody has to admit.
func request(d *resource.Definition, key object.Key, subresource string, by *auth.User) *resource.Request {
	v := d.Storage
	if d.Version(d.GroupVersion(v)) == nil && len(d.Versions) > 0 {
		v = d.Versions[0]
	}
	return &resource.Request{
		Definition: d, Version: v, Namespace: key.Namespace, Name: key.Name, Subresource: subresource, User: by,
		Manager: manager, FieldValidation: metav1.FieldValidationIgnore, Warn: func(string) {},
	}
}
