package reaper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A Reaper removes objects that are no longer needed, see the package. [Start] starts it.
type Reaper struct {
	store *resource.Store
	state *state.State
	log   *slog.Logger
	opts  Options
	feed  *state.Feed

	stop func()
	done sync.WaitGroup

	// The fields below belong to the goroutine.
	queue  queue
	gone   map[types.UID]struct{}  // owners seen to go, as long as objects name them
	parked map[object.Key]struct{} // until other kinds are served
	failed map[object.Key]int      // number of failures in a row
	timers timers
	ttls   *expiring               // resources whose objects have a time to live
	graces map[types.UID]time.Time // when the graces of namespaces end
}

// Options configure a Reaper.
type Options struct {
	Logger *slog.Logger
	// NamespaceGrace is the delay before the objects of a terminating namespace are deleted. A client
	// that deletes a namespace and then its objects one by one, as kubectl delete -f does, still
	// finds them. Default: 0.
	NamespaceGrace time.Duration

	// These disable parts of the reaper: the deletion of dependents, of the contents of namespaces,
	// of the finalizers of storage, and of expired objects.
	KeepGarbage, KeepNamespaces, KeepStorage, KeepExpired bool
}

// Start processes all objects once, and then follows their changes until Close.
func Start(ctx context.Context, store *resource.Store, opts Options) *Reaper {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &Reaper{
		store: store, state: store.State(), log: opts.Logger, opts: opts, stop: cancel,
		gone: map[types.UID]struct{}{}, parked: map[object.Key]struct{}{}, failed: map[object.Key]int{}, ttls: &expiring{},
		graces: map[types.UID]time.Time{},
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

// Close ends the goroutine and waits for it.
func (r *Reaper) Close() {
	r.stop()
	r.done.Wait()
}

// namespaces is the resource of namespaces.
var namespaces = schema.GroupResource{Resource: "namespaces"}

// matters selects the events of the feed. Most writes neither change owners nor delete anything.
func (r *Reaper) matters(e *state.Event) bool {
	return e.Object == nil || e.Object.Meta.Deleting() || ownersChange(e) || r.ttls.has(e.Object.Key.Resource) ||
		e.Prev != nil && e.Prev.Meta.UID != e.Object.Meta.UID
}

// ownersChange reports whether an event changes the owner references of an object.
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

// scan queues everything that an earlier reaper may not have finished.
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
		if keys := r.queue.take(writers); len(keys) > 0 {
			r.processAll(ctx, keys)
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

// observe queues the objects that an event affects.
func (r *Reaper) observe(e *state.Event) {
	last := e.Last()
	if o := e.Object; o != nil {
		if o.Meta.Deleting() || ownersChange(e) {
			r.queue.add(o.Key)
		}
		r.expire(o)
	} else {
		delete(r.parked, last.Key)
		delete(r.graces, last.Meta.UID)
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
	if e.Prev != nil && ownersChange(e) { // its former owners may have waited for it
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

// errParked means that a key cannot be processed before other kinds are served.
var errParked = errors.New("kind of an owner is not served")

// processAll decides what each object needs, and then does all of it together.
func (r *Reaper) processAll(ctx context.Context, keys []object.Key) {
	needs, errs := make([]write, len(keys)), make([]error, len(keys))
	for n, key := range keys {
		needs[n], errs[n] = r.process(ctx, key)
	}
	together(len(keys), func(n int) {
		if needs[n] != nil {
			errs[n] = needs[n](ctx)
		}
	})
	for n, key := range keys {
		r.settle(key, errs[n])
	}
}

// A write changes or deletes one object, or several. It runs beside other writes, and uses nothing
// that belongs to the goroutine of the Reaper.
type write func(ctx context.Context) error

// process returns the write that an object needs, if any.
func (r *Reaper) process(ctx context.Context, key object.Key) (write, error) {
	o, _ := r.state.Get(key)
	if o == nil {
		return nil, nil
	}
	// An unreadable object may be an owner, or in the namespace.
	if err := r.state.AllReadable(schema.GroupResource{}); err != nil {
		return nil, err
	}
	d := r.store.Registry().Load().Resource(key.Resource)
	if d == nil {
		return nil, errParked
	}
	i := item{Reaper: r, definition: d, object: o}
	if key.Resource == namespaces && o.Meta.Deleting() && !r.opts.KeepNamespaces {
		if err := i.emptyNamespace(ctx); err != nil {
			return nil, err
		}
	}
	if d.Deletion.Grace != nil && o.Meta.Deleting() && len(o.Meta.Finalizers) == 0 {
		return i.endGrace()
	}
	return i.collect()
}

// endGrace removes an object whose grace was zero when it was marked as deleting: the server may
// have stopped between the two writes.
func (i *item) endGrace() (write, error) {
	obj, err := i.object.Tree()
	if err != nil {
		return nil, err
	}
	if seconds, _, _ := unstructured.NestedInt64(obj, "metadata", "deletionGracePeriodSeconds"); seconds > 0 {
		return i.collect()
	}
	return func(ctx context.Context) error {
		_, err := i.store.Delete(ctx, request(i.definition, i.object.Key, "", nil), &metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &i.object.Meta.UID},
		})
		return err
	}, nil
}

// A failed key is retried after a pause, which doubles from the first to the last of these.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Minute
)

// settle schedules the retry of a key after it has been processed.
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
		r.timers.again(time.Now().Add(pause), key)
	}
}

// ring processes the timers that are due.
func (r *Reaper) ring(ctx context.Context) {
	var ended []timer
	for _, t := range r.timers.due(time.Now()) {
		if t.ends > 0 {
			ended = append(ended, t)
		} else {
			r.queue.add(t.key)
		}
	}
	r.end(ctx, ended)
}

// manager is the field manager of Kubernetes' garbage collector.
const manager = "kube-controller-manager"

// The users of Kubernetes' controllers that do the same. Admission sees them in their writes.
var (
	collector = account("generic-garbage-collector")
	emptier   = account("namespace-controller")
)

func account(name string) *authn.User {
	return &authn.User{
		Name:   "system:serviceaccount:kube-system:" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", authn.Authenticated},
	}
}

// request returns a request for an object, in its storage version if that is served. A nil user
// means the server itself, whose requests bypass admission.
func request(d *resource.Definition, key object.Key, subresource string, by resource.User) *resource.Request {
	v := d.Storage
	if d.Version(d.GroupVersion(v)) == nil && len(d.Versions) > 0 {
		v = d.Versions[0]
	}
	return &resource.Request{
		Definition: d, Version: v, Namespace: key.Namespace, Name: key.Name, Subresource: subresource, User: by,
		Manager: manager, FieldValidation: metav1.FieldValidationIgnore, Warn: func(string) {},
	}
}
