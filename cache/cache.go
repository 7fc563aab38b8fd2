package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// ErrCacheNotStarted is the error of reads before Start.
type ErrCacheNotStarted struct{}

// Error implements error.
func (*ErrCacheNotStarted) Error() string { return "the cache is not started, can not read objects" }

// ErrIndexExists is wrapped by the error of a second index of a kind with the same name.
var ErrIndexExists = errors.New("indexer conflict")

// cache implements Cache. It owns the goroutines of its informers.
type cache struct {
	Options
	config  *rest.Config
	byKind  map[schema.GroupVersionKind]ByObject
	started chan struct{} // closed by Start

	mu struct {
		sync.Mutex
		informers map[informerKey]*running
		ctx       context.Context // of Start; nil before
		workers   sync.WaitGroup
	}
}

type informerKey struct {
	schema.GroupVersionKind
	form form
}

// running is an informer, with the function that stops it if it runs.
type running struct {
	*informer
	cancel context.CancelFunc
}

// New returns a cache of the objects of a server. Before Start, reads return ErrCacheNotStarted;
// informers can be created, and handlers and indices added. A cache can be started once.
func New(config *rest.Config, opts Options) (Cache, error) {
	if config == nil {
		return nil, errors.New("the rest.Config of a cache is nil")
	}
	c := &cache{Options: opts, config: config, byKind: map[schema.GroupVersionKind]ByObject{}, started: make(chan struct{})}
	c.mu.informers = map[informerKey]*running{}
	c.Scheme = cmp.Or(c.Scheme, scheme.Scheme)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.DefaultStorage = cmp.Or(c.DefaultStorage, Compact)
	if !c.DefaultStorage.known() {
		return nil, fmt.Errorf("cache options: storage %q is neither %s nor %s", c.DefaultStorage, Compact, Decoded)
	}
	if c.HTTPClient == nil {
		var err error
		if c.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("http client of a cache: %w", err)
		}
	}
	// A watch lasts longer than a request timeout allows.
	if c.HTTPClient.Timeout > 0 {
		c.HTTPClient = &http.Client{Transport: c.HTTPClient.Transport, CheckRedirect: c.HTTPClient.CheckRedirect, Jar: c.HTTPClient.Jar}
	}
	if c.Mapper == nil {
		var err error
		if c.Mapper, err = client.NewRESTMapper(config, c.HTTPClient); err != nil {
			return nil, fmt.Errorf("REST mapper of a cache: %w", err)
		}
	}
	for obj, settings := range opts.ByObject {
		gvk, err := client.GVKForObject(obj, c.Scheme)
		if err != nil {
			return nil, fmt.Errorf("cache options by object: %w", err)
		}
		if !settings.Storage.known() {
			return nil, fmt.Errorf("cache options: storage %q of %s is neither %s nor %s", settings.Storage, gvk.Kind, Compact, Decoded)
		}
		c.byKind[gvk] = settings
	}
	return c, nil
}

// settings are the resolved options of a kind.
type settings struct {
	namespaces map[string]Config // nil: all
	all        Config
}

// settingsFor resolves the options of a kind. Settings of a namespace precede those of the kind,
// and these precede those of the cache.
func (c *cache) settingsFor(gvk schema.GroupVersionKind) (settings, Storage, time.Duration) {
	by := c.byKind[gvk]
	s := settings{all: Config{LabelSelector: by.Label, FieldSelector: by.Field, Transform: by.Transform}}
	s.all.defaults(Config{LabelSelector: c.DefaultLabelSelector, FieldSelector: c.DefaultFieldSelector, Transform: c.DefaultTransform})
	s.namespaces = maps.Clone(by.Namespaces)
	if by.Namespaces == nil {
		s.namespaces = maps.Clone(c.DefaultNamespaces)
	}
	for namespace, config := range s.namespaces {
		config.defaults(s.all)
		s.namespaces[namespace] = config
	}
	period := by.SyncPeriod
	if period == nil {
		period = c.SyncPeriod
	}
	if period == nil {
		period = new(time.Duration)
	}
	return s, cmp.Or(by.Storage, c.DefaultStorage), *period
}

func (c *Config) defaults(from Config) {
	if c.LabelSelector == nil {
		c.LabelSelector = from.LabelSelector
	}
	if c.FieldSelector == nil {
		c.FieldSelector = from.FieldSelector
	}
	if c.Transform == nil {
		c.Transform = from.Transform
	}
}

// sources returns the parts of a kind that are cached.
func (s settings) sources(namespaced bool) []source {
	if !namespaced || len(s.namespaces) == 0 {
		return []source{{Config: s.all}}
	}
	var sources []source
	for _, namespace := range slices.Sorted(maps.Keys(s.namespaces)) {
		part := source{namespace: namespace, Config: s.namespaces[namespace]}
		if namespace == v1.NamespaceAll {
			part.except = slices.DeleteFunc(slices.Sorted(maps.Keys(s.namespaces)), func(n string) bool { return n == "" })
		}
		sources = append(sources, part)
	}
	return sources
}

// shares reports whether reads of a kind share objects with the cache by default.
func (c *cache) shares(gvk schema.GroupVersionKind) bool {
	if by := c.byKind[gvk].UnsafeDisableDeepCopy; by != nil {
		return *by
	}
	return c.DefaultUnsafeDisableDeepCopy != nil && *c.DefaultUnsafeDisableDeepCopy
}

// informerFor returns the informer of a kind and a form. It creates the informer if there is none.
func (c *cache) informerFor(gvk schema.GroupVersionKind, f form) (inf *informer, started bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := informerKey{gvk, f}
	r := c.mu.informers[key]
	if r == nil {
		settings, storage, resync := c.settingsFor(gvk)
		inf := newInformer(&kind{gvk: gvk, form: f, scheme: c.Scheme, storage: storage, shared: c.shares(gvk), events: c.UnsafeSharedEvents, mutated: c.MutationDetected})
		inf.state = c.State
		inf.config, inf.client, inf.mapper, inf.settings, inf.resync = c.config, c.HTTPClient, c.Mapper, settings, resync
		inf.log = c.Logger.With("kind", gvk.GroupKind().String(), "version", gvk.Version)
		r = &running{informer: inf}
		c.mu.informers[key] = r
		c.runLocked(r)
	}
	return r.informer, c.mu.ctx != nil
}

// runLocked starts an informer if the cache is started.
func (c *cache) runLocked(r *running) {
	if c.mu.ctx == nil {
		return
	}
	ctx, cancel := context.WithCancel(c.mu.ctx)
	r.cancel = cancel
	if ctx.Err() != nil {
		r.end()
		return
	}
	c.mu.workers.Go(func() { r.run(ctx) })
}

// Start implements Informers.
func (c *cache) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	if c.mu.ctx != nil {
		c.mu.Unlock()
		return errors.New("the cache: Start was called more than once")
	}
	c.mu.ctx = ctx
	for _, r := range c.mu.informers {
		c.runLocked(r)
	}
	close(c.started)
	c.mu.Unlock()
	<-ctx.Done()
	// After this, every holder of the lock sees an ended context, and starts nothing. Handlers may
	// read until they have ended.
	c.mu.Lock()
	workers := &c.mu.workers
	c.mu.Unlock()
	workers.Wait()
	return nil
}

// NeedLeaderElection returns false: a manager starts the cache before the election.
func (c *cache) NeedLeaderElection() bool { return false }

// WaitForCacheSync implements Informers.
func (c *cache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-c.started:
	case <-ctx.Done():
		return false
	}
	c.mu.Lock()
	informers := slices.Collect(maps.Values(c.mu.informers))
	c.mu.Unlock()
	for _, r := range informers {
		if r.waitSynced(ctx) != nil {
			return false
		}
	}
	return true
}

// GetInformer implements Informers.
func (c *cache) GetInformer(ctx context.Context, obj client.Object, opts ...InformerGetOption) (Informer, error) {
	gvk, err := client.GVKForObject(obj, c.Scheme)
	if err != nil {
		return nil, err
	}
	return c.getInformer(ctx, gvk, formOf(obj), opts)
}

// GetInformerForKind implements Informers.
func (c *cache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...InformerGetOption) (Informer, error) {
	if !c.Scheme.Recognizes(gvk) {
		return nil, runtime.NewNotRegisteredErrForKind(c.Scheme.Name(), gvk)
	}
	return c.getInformer(ctx, gvk, typed, opts)
}

func (c *cache) getInformer(ctx context.Context, gvk schema.GroupVersionKind, f form, opts []InformerGetOption) (Informer, error) {
	var o InformerGetOptions
	for _, opt := range opts {
		opt(&o)
	}
	inf, started := c.informerFor(gvk, f)
	if started && (o.BlockUntilSynced == nil || *o.BlockUntilSynced) {
		if err := synced(ctx, inf); err != nil {
			return nil, err
		}
	}
	return inf, nil
}

func synced(ctx context.Context, inf *informer) error {
	err := inf.waitSynced(ctx)
	if err != nil && ctx.Err() != nil {
		message := fmt.Sprintf("failed waiting for %s Informer to sync", inf.kind.gvk.Kind)
		if cause := inf.failure(); cause != nil {
			message += ": " + cause.Error()
		}
		return apierrors.NewTimeoutError(message, 0)
	}
	return err
}

// RemoveInformer implements Informers. Calls that wait for the informer return an error.
func (c *cache) RemoveInformer(_ context.Context, obj client.Object) error {
	gvk, err := client.GVKForObject(obj, c.Scheme)
	if err != nil {
		return err
	}
	key := informerKey{gvk, formOf(obj)}
	c.mu.Lock()
	r := c.mu.informers[key]
	delete(c.mu.informers, key)
	c.mu.Unlock()
	switch {
	case r == nil:
	case r.cancel == nil:
		r.end()
	default:
		r.cancel()
		<-r.done
	}
	return nil
}

// IndexField implements client.FieldIndexer.
func (c *cache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	inf, err := c.GetInformer(ctx, obj, BlockUntilSynced(false))
	if err != nil {
		return err
	}
	return inf.AddIndexers(map[string]client.IndexerFunc{field: extract})
}

// reader returns a synced informer for reads into obj, an object or a list.
func (c *cache) reader(ctx context.Context, into runtime.Object) (*informer, error) {
	gvk, err := client.GVKForObject(into, c.Scheme)
	if err != nil {
		return nil, err
	}
	if _, isObject := into.(client.Object); !isObject {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	inf, started := c.informerFor(gvk, formOf(into))
	if !started {
		return nil, &ErrCacheNotStarted{}
	}
	if err := synced(ctx, inf); err != nil {
		return nil, err
	}
	inf.catchUp()
	return inf, nil
}
