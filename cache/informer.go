package cache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/cache/local"
	"github.com/kapok-dev/kapok/client"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
)

// errStopped is the error of an informer that has ended.
var errStopped = errors.New("the informer has ended")

// An informer fills a store with the objects of a kind and delivers events to handlers. Reflectors,
// one for each cached namespace, add changes to a queue. The goroutine of run takes them from
// there, changes the store, and passes them to the handlers, which have a goroutine each.
type informer struct {
	kind     *kind
	state    local.State // of a server in this process; nil: the objects come from the connection
	config   *rest.Config
	client   *http.Client
	mapper   meta.RESTMapper
	log      *slog.Logger
	resync   time.Duration
	settings settings

	queue *deltaQueue
	done  chan struct{} // closed when the informer has ended

	// changing is held while the store or its indices are changed, and is locked before mu. It may
	// be held for long; mu may not.
	changing sync.Mutex

	mu struct {
		sync.RWMutex
		store     *store
		shared    *store // a snapshot of the store; nil: none since the last change
		mapping   *meta.RESTMapping
		sources   []source
		handlers  []*handler
		running   bool
		stopped   bool
		synced    bool
		followers []*follower
		failure   error         // the last of a reflector
		changed   chan struct{} // closed at the next change; nil if no call waits
	}
}

// A source is the part of the objects of a kind that one reflector reports.
type source struct {
	namespace string   // "": all
	except    []string // but these
	Config
	revision string // the progress of the reflector in the store
	listed   bool
}

func (s *source) covers(namespace string) bool {
	return s.namespace == namespace || s.namespace == "" && !slices.Contains(s.except, namespace)
}

func newInformer(k *kind) *informer {
	inf := &informer{kind: k, queue: newDeltaQueue(), done: make(chan struct{})}
	inf.mu.store = newStore()
	return inf
}

// run fills the store until ctx ends. No handler is called after it returns.
func (inf *informer) run(ctx context.Context) {
	defer inf.end()
	var workers sync.WaitGroup
	defer workers.Wait()
	inf.mu.Lock()
	inf.mu.running = true
	for _, h := range inf.mu.handlers {
		h.start()
	}
	inf.mu.Unlock()

	for b := (backoff{}); ; {
		mapping, err := meta.ToRESTMapperWithContext(inf.mapper).RESTMappingWithContext(ctx, inf.kind.gvk.GroupKind(), inf.kind.gvk.Version)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			for i, r := range inf.reflectors(mapping) {
				workers.Go(func() {
					if inf.state == nil || !inf.follow(ctx, i) {
						r.run(ctx)
					}
				})
			}
			break
		}
		delay := b.delay(err)
		inf.fail(err)
		inf.log.Warn("Failed to watch", "error", err, "retryAfter", delay)
		sleep(ctx, delay)
	}
	for {
		deltas, reached := inf.queue.pop()
		if len(deltas)+len(reached) == 0 {
			select {
			case <-inf.queue.ready:
				continue
			case <-ctx.Done():
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		for _, d := range deltas {
			inf.apply(d)
		}
		inf.reach(reached)
	}
}

// end is called once.
func (inf *informer) end() {
	inf.mu.Lock()
	inf.mu.stopped = true
	handlers := inf.mu.handlers
	inf.mu.handlers = nil
	inf.notifyLocked()
	inf.mu.Unlock()
	for _, h := range handlers {
		h.end()
	}
	if inf.kind.mutated != nil {
		inf.kind.detectMutations(inf.kind.recent.all())
	}
	close(inf.done)
}

// reflectors returns a reflector for each cached namespace, or one for all.
func (inf *informer) reflectors(mapping *meta.RESTMapping) []*reflector {
	sources := inf.settings.sources(mapping.Scope.Name() == meta.RESTScopeNameNamespace)
	reflectors := make([]*reflector, len(sources))
	for i, s := range sources {
		reflectors[i] = &reflector{
			client: inf.client, kind: inf.kind, media: inf.kind.media(), agent: inf.config.UserAgent, source: i, queue: inf.queue,
			url:      func() (*url.URL, error) { return resourceURL(inf.config, mapping, s.namespace) },
			selector: s.query(),
			known:    inf.known(s),
			failed:   inf.fail,
			log:      inf.log,
		}
		if len(sources) > 1 {
			reflectors[i].log = inf.log.With("namespace", s.namespace)
		}
	}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	inf.mu.mapping, inf.mu.sources = mapping, sources
	inf.notifyLocked()
	return reflectors
}

// fail records why objects cannot be read.
func (inf *informer) fail(err error) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	inf.mu.failure = err
}

// failure returns the last error of a reflector, or nil.
func (inf *informer) failure() error {
	inf.mu.RLock()
	defer inf.mu.RUnlock()
	return inf.mu.failure
}

func (s *source) query() url.Values {
	q := url.Values{}
	if s.LabelSelector != nil && !s.LabelSelector.Empty() {
		q.Set("labelSelector", s.LabelSelector.String())
	}
	if selector := s.fields(); selector != nil {
		q.Set("fieldSelector", selector.String())
	}
	return q
}

// fields returns the field selector of requests; nil is everything.
func (s *source) fields() fields.Selector {
	var selectors []fields.Selector
	if s.FieldSelector != nil && !s.FieldSelector.Empty() {
		selectors = append(selectors, s.FieldSelector)
	}
	for _, namespace := range s.except {
		selectors = append(selectors, fields.OneTermNotEqualSelector("metadata.namespace", namespace))
	}
	if len(selectors) == 0 {
		return nil
	}
	return fields.AndSelectors(selectors...)
}

// known returns the objects of a source that are in the store.
func (inf *informer) known(s source) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for e := range inf.snapshot().all(s.namespace) {
			if s.covers(e.namespace) && !yield(e) {
				return
			}
		}
	}
}

// resourceURL returns the URL of the objects of a kind.
func resourceURL(config *rest.Config, mapping *meta.RESTMapping, namespace string) (*url.URL, error) {
	c := rest.CopyConfig(config)
	gv := mapping.Resource.GroupVersion()
	c.GroupVersion, c.APIPath = &gv, "/apis"
	if gv.Group == "" {
		c.APIPath = "/api"
	}
	base, path, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return nil, err
	}
	parts := []string{path}
	if namespace != "" {
		parts = append(parts, "namespaces", namespace)
	}
	return base.JoinPath(append(parts, mapping.Resource.Resource)...), nil
}

// apply applies changes to the store and passes them to the handlers.
func (inf *informer) apply(d delta) {
	inf.changing.Lock()
	defer inf.changing.Unlock()
	if d.deltaType == deleted {
		inf.mu.Lock()
		defer inf.mu.Unlock()
		old := inf.mu.store.remove(d.entry)
		inf.changedLocked()
		if old != nil {
			last := d.entry
			if d.unknown {
				last = old
			} else if prepared, err := inf.kind.prepare(last, inf.mu.sources[d.source].Transform); err == nil {
				last = prepared
			}
			inf.tellLocked(event{kind: removal, entry: last, unknown: d.unknown})
		}
		return
	}
	e, err := inf.kind.prepare(d.entry, inf.mu.sources[d.source].Transform) // sources do not change any more
	if err != nil {
		inf.log.Warn("Keeping an object as it came", "error", err)
	}
	if e.values, err = valuesOf(inf.kind, inf.mu.store.indices, e); err != nil {
		inf.log.Warn("Cannot index an object", "error", err)
	}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	old := inf.mu.store.put(e)
	inf.changedLocked()
	switch {
	case old == nil:
		inf.tellLocked(event{kind: addition, entry: e, initial: d.initial})
	case old.revision != e.revision || old.uid != e.uid:
		inf.tellLocked(event{kind: change, old: old, entry: e})
	}
}

// reach records the progress of the store.
func (inf *informer) reach(reached []progress) {
	if len(reached) == 0 {
		return
	}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	for _, p := range reached {
		s := &inf.mu.sources[p.source]
		s.revision = p.revision
		s.listed = s.listed || p.list
	}
	if !inf.mu.synced && !slices.ContainsFunc(inf.mu.sources, func(s source) bool { return !s.listed }) {
		inf.mu.synced = true
		inf.tellLocked(event{kind: allTold})
	}
	inf.notifyLocked()
}

func (inf *informer) changedLocked() {
	inf.mu.shared = nil
	inf.notifyLocked()
}

func (inf *informer) notifyLocked() {
	if inf.mu.changed != nil {
		close(inf.mu.changed)
		inf.mu.changed = nil
	}
}

func (inf *informer) tellLocked(e event) {
	for _, h := range inf.mu.handlers {
		h.push(e)
	}
}

// snapshot returns the current state of the store.
func (inf *informer) snapshot() *store {
	inf.mu.RLock()
	shared := inf.mu.shared
	inf.mu.RUnlock()
	if shared != nil {
		return shared
	}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.snapshotLocked()
}

func (inf *informer) snapshotLocked() *store {
	if inf.mu.shared == nil {
		inf.mu.shared = inf.mu.store.snapshot()
	}
	return inf.mu.shared
}

func (inf *informer) get(key client.ObjectKey) *entry {
	inf.mu.RLock()
	defer inf.mu.RUnlock()
	return inf.mu.store.get(key)
}

// wait waits until a condition is true. It is evaluated with the lock held.
func (inf *informer) wait(ctx context.Context, condition func() (bool, error)) error {
	for {
		inf.mu.Lock()
		ok, err := condition()
		if err == nil && !ok && inf.mu.stopped {
			err = errStopped
		}
		if ok || err != nil {
			inf.mu.Unlock()
			return err
		}
		if inf.mu.changed == nil {
			inf.mu.changed = make(chan struct{})
		}
		changed := inf.mu.changed
		inf.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (inf *informer) waitSynced(ctx context.Context) error {
	return inf.wait(ctx, func() (bool, error) { return inf.mu.synced, nil })
}

// WaitForRevision implements Informer.
func (inf *informer) WaitForRevision(ctx context.Context, revision string) error {
	return inf.waitForRevision(ctx, revision, func(*source) bool { return true })
}

// waitForRevision waits for some of the sources.
func (inf *informer) waitForRevision(ctx context.Context, revision string, which func(*source) bool) error {
	inf.catchUp()
	err := inf.wait(ctx, func() (bool, error) {
		if !inf.mu.synced {
			return false, nil
		}
		for i := range inf.mu.sources {
			s := &inf.mu.sources[i]
			if !which(s) {
				continue
			}
			if !reaches(s.revision, revision) {
				return false, nil
			}
		}
		return true, nil
	})
	return inf.waited(err, "resourceVersion "+revision)
}

// reaches reports whether a store at one revision includes another one. Revisions that cannot be
// compared count as included, because the wait might never end.
func reaches(at, revision string) bool {
	if at == "" || at == "0" {
		return at == revision
	}
	order, err := resourceversion.CompareResourceVersion(at, revision)
	return err != nil || order >= 0
}

// WaitForObject implements Informer.
func (inf *informer) WaitForObject(ctx context.Context, obj client.Object) error {
	excluded := func(s *source) bool { return s.excludes(obj) }
	return inf.waitForChange(ctx, client.ObjectKeyFromObject(obj), obj.GetResourceVersion(), excluded)
}

// waitForChange waits until the store has an object at a revision or later, or has reached the
// revision. If the object may be excluded from its source, its absence is enough.
func (inf *informer) waitForChange(ctx context.Context, key client.ObjectKey, revision string, excluded func(*source) bool) error {
	inf.catchUp()
	err := inf.wait(ctx, func() (bool, error) {
		if !inf.mu.synced {
			return false, nil
		}
		i := slices.IndexFunc(inf.mu.sources, func(s source) bool { return s.covers(key.Namespace) })
		if i < 0 {
			return true, nil // it is in a namespace that is not kept
		}
		s := &inf.mu.sources[i]
		if reaches(s.revision, revision) {
			return true, nil
		}
		kept := inf.mu.store.get(key)
		if kept != nil {
			return reaches(kept.revision, revision), nil
		}
		return excluded(s), nil
	})
	return inf.waited(err, fmt.Sprintf("%s at resourceVersion %s", key, revision))
}

// WaitForDeletion implements Informer.
func (inf *informer) WaitForDeletion(ctx context.Context, key client.ObjectKey, uid string) error {
	return inf.waitForDeletion(ctx, key, uid, true)
}

// waitForDeletion waits until the store has no object with this key and uid. With begun, an object
// that is being deleted is enough.
func (inf *informer) waitForDeletion(ctx context.Context, key client.ObjectKey, uid string, begun bool) error {
	inf.catchUp()
	err := inf.wait(ctx, func() (bool, error) {
		if !inf.mu.synced {
			return false, nil
		}
		kept := inf.mu.store.get(key)
		return kept == nil || kept.uid != uid || begun && kept.deleting, nil
	})
	return inf.waited(err, "the deletion of "+key.String())
}

func (inf *informer) waited(err error, what string) error {
	if err != nil {
		return fmt.Errorf("the cache of %s waits for %s: %w", inf.kind.gvk.Kind, what, err)
	}
	return nil
}

// HasSynced implements Informer.
func (inf *informer) HasSynced() bool {
	inf.mu.RLock()
	defer inf.mu.RUnlock()
	return inf.mu.synced
}

// IsStopped implements Informer.
func (inf *informer) IsStopped() bool {
	inf.mu.RLock()
	defer inf.mu.RUnlock()
	return inf.mu.stopped
}

// AddIndexers implements Informer.
func (inf *informer) AddIndexers(indexers map[string]client.IndexerFunc) error {
	inf.changing.Lock()
	defer inf.changing.Unlock()
	if inf.IsStopped() {
		return errStopped
	}
	before := inf.mu.store // which only changes with changing held
	next := &store{objects: newStore().objects, indices: slices.Clone(before.indices)}
	for name, extract := range indexers {
		if before.index(name) >= 0 {
			return fmt.Errorf("%w: %s", ErrIndexExists, name)
		}
		next.indices = append(next.indices, newIndex(name, extract))
	}
	added := next.indices[len(before.indices):]
	for i, x := range next.indices {
		next.indices[i] = newIndex(x.name, x.extract)
	}
	for e := range inf.snapshot().all("") {
		e = e.clone()
		values, err := valuesOf(inf.kind, added, e)
		if err != nil {
			inf.log.Warn("Cannot index an object", "error", err)
		}
		e.values = append(slices.Clip(e.values), values...)
		next.put(e)
	}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	inf.mu.store = next
	inf.mu.shared = nil
	return nil
}
