package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// DefaultWaitTimeout is the default of CacheOptions.WaitTimeout.
const DefaultWaitTimeout = 10 * time.Second

// ErrStale is wrapped by the error of a read from a cache that did not see the client's own writes
// in time.
var ErrStale = errors.New("the cache has not seen the latest writes of its client")

// A Waiter is a cache that can wait until it has seen a write. If the Reader of a client is a
// Waiter, the client reads its own writes: a read that begins after a write of the client has
// returned does not return an older state. A Get waits for the writes in its namespace and for the
// deletion of its object; a List waits for all writes that it may include. A write is waited for
// until it has been seen once, for at most one minute or the WaitTimeout, whichever is longer.
// Failed writes, dry runs and writes with the option Stale are not waited for, nor are writes of
// other clients and consequences of a write in the server, such as the deletion of dependents or an
// eviction.
//
// A read that has waited for the WaitTimeout returns ErrStale, for example while the server is
// unreachable. If the cache cannot know whether it keeps the written object, as with a field
// selector on anything but string fields of a Go type, it may learn about the write only at the
// next bookmark, which takes up to a minute.
type Waiter interface {
	// WaitForRevision waits until reads of a kind return the state of a namespace at a
	// resourceVersion or later. obj is of that kind and of the form to read (typed, unstructured,
	// metadata); it may be a list, and is not changed. namespace is "" for cluster-scoped kinds. It
	// returns at once for a kind or namespace that is not cached.
	WaitForRevision(ctx context.Context, obj runtime.Object, namespace, resourceVersion string) error
	// WaitForDeletion waits until there is no object with this key and uid. With begun, an object
	// that is being deleted is enough.
	WaitForDeletion(ctx context.Context, obj runtime.Object, key ObjectKey, uid types.UID, begun bool) error
}

// A Keeper is a Waiter that may keep only some objects of a kind. Writing an object that it does
// not keep causes no event in it, unless the object was there before, so that waiting for the
// revision of the namespace could take long.
type Keeper interface {
	// Keeps reports whether obj, in its current state on the server, is kept. It returns true if
	// that is unknown, because obj may be metadata only.
	Keeps(obj Object) bool
	// WaitForChange waits until a read of the object of this key returns its state at a
	// resourceVersion or later. If the Keeper keeps only some objects, the absence of the object is
	// enough.
	WaitForChange(ctx context.Context, obj runtime.Object, key ObjectKey, resourceVersion string) error
}

// consistency records the writes of a client until its cache has seen them.
//
// It records one revision for each namespace of a kind, the highest one, because informers see them
// in order; and deletions, because they have no revision of their own. A cache keeps a kind in up
// to three forms, which see a write at different times. Each form has its own record.
type consistency struct {
	waiter  Waiter
	timeout time.Duration
	waited  *prometheus.HistogramVec // nil without metrics

	mu struct {
		sync.Mutex
		unseen map[reads]*writes
	}
}

// forgetAfter is the age at which a write is dropped, because a form of a kind may never be read.
const forgetAfter = time.Minute

// reads are those of a kind in a form.
type reads struct {
	schema.GroupKind
	form form
}

// writes are the writes that reads may have to wait for.
type writes struct {
	revisions map[string]*write // by namespace
	objects   map[ObjectKey]*write
	swept     time.Time // the time of the last removal of expired writes
}

// A write is a revision of a namespace or of an object, or the deletion of an object. It is
// immutable.
type write struct {
	key             ObjectKey
	resourceVersion string    // "": the object has been deleted
	uid             types.UID // "": it is a revision of the namespace
	begun           bool      // true if the deletion may only have begun
	at              time.Time
}

// newConsistency returns nil if the cache cannot wait, or is not to.
func newConsistency(o *CacheOptions) (*consistency, error) {
	waiter, ok := o.Reader.(Waiter)
	if !ok || o.Stale {
		return nil, nil
	}
	c := &consistency{waiter: waiter, timeout: o.WaitTimeout}
	if c.timeout <= 0 {
		c.timeout = DefaultWaitTimeout
	}
	c.mu.unseen = map[reads]*writes{}
	if o.Metrics == nil {
		return c, nil
	}
	c.waited = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "kapok_client_cache_wait_seconds",
		Help:    "Time that reads from the cache waited for the client's own writes. Reads that did not wait are not counted.",
		Buckets: prometheus.ExponentialBuckets(0.000_5, 2, 16),
	}, []string{"group", "kind"})
	err := o.Metrics.Register(c.waited)
	if there := (prometheus.AlreadyRegisteredError{}); errors.As(err, &there) {
		if c.waited, ok = there.ExistingCollector.(*prometheus.HistogramVec); ok {
			err = nil
		}
	}
	return c, err
}

// wrote records a write. obj is the current state on the server, or has at least its
// resourceVersion, like a Scale.
func (c *consistency) wrote(gvk schema.GroupVersionKind, obj Object, whole bool) {
	if obj.GetResourceVersion() == "" {
		return
	}
	if whole && ends(gvk, obj) {
		c.deleted(gvk, ObjectKeyFromObject(obj), obj.GetUID(), false)
		return
	}
	// It is unknown whether the object of a subresource is kept.
	if keeper, ok := c.waiter.(Keeper); ok && obj.GetUID() != "" && (!whole || !keeper.Keeps(obj)) {
		c.noteObject(gvk, &write{key: ObjectKeyFromObject(obj), resourceVersion: obj.GetResourceVersion(), uid: obj.GetUID(), at: time.Now()})
		return
	}
	w := &write{
		key:             ObjectKey{Namespace: obj.GetNamespace()},
		resourceVersion: obj.GetResourceVersion(),
		at:              time.Now(),
	}
	c.note(gvk, w, func(unseen *writes) {
		if known := unseen.revisions[w.key.Namespace]; known != nil {
			// Revisions of servers that cannot be compared are assumed to increase.
			if order, err := resourceversion.CompareResourceVersion(w.resourceVersion, known.resourceVersion); err == nil && order <= 0 {
				return
			}
		}
		unseen.revisions[w.key.Namespace] = w
	})
}

// ends reports whether a write has released an object that was being deleted. The server answers
// with the object as written, not with the resourceVersion of its end. The finalizers of a
// Namespace are in its spec, too.
func ends(gvk schema.GroupVersionKind, obj Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && (grace == nil || *grace == 0) &&
		gvk.GroupKind() != schema.GroupKind{Kind: "Namespace"}
}

// deleted records a deletion, or, with begun, one that may only have begun.
func (c *consistency) deleted(gvk schema.GroupVersionKind, key ObjectKey, uid types.UID, begun bool) {
	c.noteObject(gvk, &write{key: key, uid: uid, begun: begun, at: time.Now()})
}

// noteObject records a write of an object.
func (c *consistency) noteObject(gvk schema.GroupVersionKind, w *write) {
	if w.uid != "" { // otherwise it could not be distinguished from its successor
		c.note(gvk, w, func(unseen *writes) { unseen.objects[w.key] = w })
	}
}

// note adds a write to the record of each form.
func (c *consistency) note(gvk schema.GroupVersionKind, w *write, add func(*writes)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, form := range []form{typed, unstructured, metadata} {
		by := reads{gvk.GroupKind(), form}
		unseen := c.mu.unseen[by]
		if unseen == nil {
			unseen = &writes{revisions: map[string]*write{}, objects: map[ObjectKey]*write{}, swept: w.at}
			c.mu.unseen[by] = unseen
		}
		if w.at.Sub(unseen.swept) > c.forgetAfter() {
			maps.DeleteFunc(unseen.revisions, func(_ string, w *write) bool { return c.isOld(w) })
			maps.DeleteFunc(unseen.objects, func(_ ObjectKey, w *write) bool { return c.isOld(w) })
			unseen.swept = w.at
		}
		add(unseen)
	}
}

func (c *consistency) forgetAfter() time.Duration { return max(forgetAfter, c.timeout) }

// isOld reports whether a write has expired.
func (c *consistency) isOld(w *write) bool { return time.Since(w.at) > c.forgetAfter() }

// wait waits until the cache has seen the earlier writes: to the object of a key, or to all objects
// of a namespace if the name is "", or to all objects. obj is the object or list to read.
func (c *consistency) wait(ctx context.Context, gvk schema.GroupVersionKind, obj runtime.Object, key ObjectKey) error {
	by := reads{itemKind(gvk, obj).GroupKind(), formOf(obj)}
	pending := c.pending(by, key)
	if len(pending) == 0 {
		return nil
	}
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	defer func() {
		if c.waited != nil {
			c.waited.WithLabelValues(by.Group, by.Kind).Observe(time.Since(start).Seconds())
		}
	}()
	for _, w := range pending {
		if err := c.waitFor(bounded, obj, w); err != nil {
			if ctx.Err() == nil && bounded.Err() != nil {
				err = fmt.Errorf("%w after %v", ErrStale, c.timeout)
			}
			return fmt.Errorf("read %s, wait for %s: %w", by.Kind, w, err)
		}
		c.saw(by, w)
	}
	return nil
}

func (c *consistency) waitFor(ctx context.Context, obj runtime.Object, w *write) error {
	switch {
	case w.uid == "":
		return c.waiter.WaitForRevision(ctx, obj, w.key.Namespace, w.resourceVersion)
	case w.resourceVersion == "":
		return c.waiter.WaitForDeletion(ctx, obj, w.key, w.uid, w.begun)
	}
	return c.waiter.(Keeper).WaitForChange(ctx, obj, w.key, w.resourceVersion)
}

// pending returns the writes that the read must wait for.
func (c *consistency) pending(by reads, read ObjectKey) (pending []*write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	unseen := c.mu.unseen[by]
	if unseen == nil {
		return nil
	}
	add := func(w *write) {
		if w != nil && !c.isOld(w) {
			pending = append(pending, w)
		}
	}
	if read.Name != "" {
		add(unseen.revisions[read.Namespace])
		add(unseen.objects[read])
		return pending
	}
	for namespace, w := range unseen.revisions {
		if read.Namespace == "" || namespace == read.Namespace {
			add(w)
		}
	}
	for key, w := range unseen.objects {
		if read.Namespace == "" || key.Namespace == read.Namespace {
			add(w)
		}
	}
	return pending
}

// saw records that a write has been seen.
func (c *consistency) saw(by reads, w *write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	unseen := c.mu.unseen[by]
	if unseen.revisions[w.key.Namespace] == w {
		delete(unseen.revisions, w.key.Namespace)
	}
	if unseen.objects[w.key] == w {
		delete(unseen.objects, w.key)
	}
}

// String describes the write for an error.
func (w *write) String() string {
	switch {
	case w.uid == "":
		return "resourceVersion " + w.resourceVersion
	case w.resourceVersion == "":
		return fmt.Sprintf("the deletion of %s (uid %s)", w.key, w.uid)
	}
	return fmt.Sprintf("%s at resourceVersion %s", w.key, w.resourceVersion)
}

// deletedAs records the response to a deletion: a Status about the object of the key, that object,
// or a list of all deleted objects. uid is the uid of the object that the caller knows.
func (c *consistency) deletedAs(gvk schema.GroupVersionKind, key ObjectKey, uid types.UID, answer []byte) {
	var told struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Details  struct {
			UID types.UID `json:"uid"`
		} `json:"details"`
		Items []metav1.PartialObjectMetadata `json:"items"`
	}
	if json.Unmarshal(answer, &told) != nil {
		told.Metadata.UID, told.Details.UID, told.Items = "", "", nil // nothing is known
	}
	for i := range told.Items {
		c.deleted(gvk, ObjectKeyFromObject(&told.Items[i]), told.Items[i].UID, true)
	}
	if key.Name != "" {
		c.deleted(gvk, key, cmp.Or(told.Metadata.UID, told.Details.UID, uid), !ends(gvk, &metav1.PartialObjectMetadata{ObjectMeta: told.Metadata}))
	}
}
