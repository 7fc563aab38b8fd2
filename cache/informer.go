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

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"

	"github.com/kapok-dev/kapok/client"
)

// errStopped is what an informer that has ended says.
var errStopped = errors.New("the informer has ended")

// An informer is a store of the objects of a kind, what fills it, and who hears of it. Reflectors, one for each namespace that is kept, tell a
// queue; the goroutine of run takes from there, changes the store, and tells handlers, each of which has a goroutine.
type informer struct {
	kind     *kind
	config   *rest.Config
	client   *http.Client
	mapper   meta.RESTMapper
	log      *slog.Logger
	resync   time.Duration
	settings settings

	queue *deltaQueue
	done  chan struct{} // closed when the informer has ended

	// changing is held by who changes the store or its indices, before mu. It is for long work; mu is for short.
	changing sync.Mutex

	mu struct {
		sync.RWMutex
		store    *store
		shared   *store // a snapshot of the store; nil: none since the last change
		mapping  *meta.RESTMapping
		sources  []source
		handlers []*handler
		running  bool
		stopped  bool
		synced   bool
		failure  error         // the last of a reflector
		changed  chan struct{} // closed at the next change; nil: nobody waits
	}
}

// A source is a part of the objects of a kind, which a reflector tells of.
type source struct {
	namespace string   // "": all
	except    []string // but these
	Config
	revision string // up to which the store has what the reflector told
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

// run fills the store until the context ends. When it returns, no handler is called any more.
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

	for fails := 0; ; fails++ {
		mapping, err := meta.ToRESTMapperWithContext(inf.mapper).RESTMappingWithContext(ctx, inf.kind.gvk.GroupKind(), inf.kind.gvk.Version)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			for _, r := range inf.reflectors(mapping) {
				workers.Go(func() { r.run(ctx) })
			}
			break
		}
		r := reflector{fails: fails, lastFail: time.Now()}
		delay := r.delay(err)
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
	close(inf.done)
}

// reflectors makes one for each namespace that is kept, or one for all.
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

// fail notes what keeps the informer from its objects.
func (inf *informer) fail(err error) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	inf.mu.failure = err
}

// failure is the last that went wrong; nil: nothing did.
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
	var selectors []fields.Selector
	if s.FieldSelector != nil && !s.FieldSelector.Empty() {
		selectors = append(selectors, s.FieldSelector)
	}
	for _, namespace := range s.except {
		selectors = append(selectors, fields.OneTermNotEqualSelector("metadata.namespace", namespace))
	}
	if len(selectors) > 0 {
		q.Set("fieldSelector", fields.AndSelectors(selectors...).String())
	}
	return q
}

// known is what a source has in the store.
func (inf *informer) known(s source) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for e := range inf.snapshot().all(s.namespace) {
			if s.covers(e.namespace) && !yield(e) {
				return
			}
		}
	}
}

// resourceURL is where the objects of a kind are.
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

// apply makes a change, and tells handlers.
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

// reach notes what the store has.
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

// snapshot returns what the store has now.
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

// wait waits until a condition is true, which is asked with the lock held.
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

// reaches says that a store at a revision has what was true at another. Of what does not compare it is believed, as waiting might have no end.
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

// waitForChange waits until the store has an object at a revision or later, or has come to the revision. That the store has none is
// enough if the object may be excluded from its source.
func (inf *informer) waitForChange(ctx context.Context, key client.ObjectKey, revision string, excluded func(*source) bool) error {
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

// waitForDeletion waits until the store has no object of this key and uid. With begun, one that is being deleted is as good.
func (inf *informer) waitForDeletion(ctx context.Context, key client.ObjectKey, uid string, begun bool) error {
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
			return fmt.Errorf("indexer conflict: %s", name)
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
