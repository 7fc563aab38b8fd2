package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Options configure a Client. The zero value is a client of the built-in kinds that reads from the
// server.
type Options struct {
	HTTPClient *http.Client    // default: made of the rest.Config
	Scheme     *runtime.Scheme // default: that of k8s.io/client-go/kubernetes/scheme
	Mapper     meta.RESTMapper // default: NewRESTMapper

	// Cache lets the client read from a cache. Default: it reads from the server.
	Cache *CacheOptions
	// DryRun makes all writes dry runs.
	DryRun *bool
	// FieldOwner is the field manager of writes that do not set one. Default: the server derives it
	// from the user agent.
	FieldOwner string
	// FieldValidation configures how the server handles unknown and duplicate fields of writes that
	// do not set it: metav1.FieldValidationIgnore, -Warn or -Strict. Default: that of the server,
	// which is Warn.
	FieldValidation string
}

// CacheOptions configure the reads of a Client from a cache.
type CacheOptions struct {
	// Reader is the cache.
	Reader Reader
	// DisableFor are objects of the kinds that are read from the server nevertheless.
	DisableFor []Object
	// Unstructured reads unstructured objects from the cache, too. Default: they are read from the
	// server.
	Unstructured bool

	// Stale disables the wait of reads for the client's own writes. Default: if the Reader is a
	// Waiter, reads wait.
	Stale bool
	// WaitTimeout is the time after which a waiting read returns ErrStale. Default:
	// DefaultWaitTimeout.
	WaitTimeout time.Duration
	// Metrics registers a histogram of the waiting times of reads: kapok_client_cache_wait_seconds.
	// Default: none.
	Metrics prometheus.Registerer
}

// New returns a client of the server of cfg. It is safe for concurrent use, starts no goroutine,
// and sends no request until it is used.
//
// Objects are sent as protobuf if both sides support it, and as JSON otherwise, or always if
// cfg.ContentType is JSON. Requests that the server rejects with Retry-After are retried, as in
// client-go. If cfg has neither QPS nor RateLimiter, the client does not limit its rate.
func New(cfg *rest.Config, opts Options) (Client, error) { return newClient(cfg, opts) }

// NewWithWatch returns a client that can also watch.
func NewWithWatch(cfg *rest.Config, opts Options) (WithWatch, error) { return newClient(cfg, opts) }

// A NewClientFunc creates a client, as New does.
type NewClientFunc func(*rest.Config, Options) (Client, error)

func newClient(cfg *rest.Config, opts Options) (*client, error) {
	if cfg == nil {
		return nil, errors.New("client: the rest.Config is nil")
	}
	cfg = rest.CopyConfig(cfg)
	if cfg.RateLimiter == nil && cfg.QPS > 0 {
		// One HTTP client for all groups and versions, instead of one for each.
		burst := cfg.Burst
		if burst <= 0 {
			burst = rest.DefaultBurst
		}
		cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, burst)
	}
	var err error
	if opts.HTTPClient == nil {
		if opts.HTTPClient, err = rest.HTTPClientFor(cfg); err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
	}
	if opts.Scheme == nil {
		opts.Scheme = clientscheme.Scheme
	}
	if opts.Mapper == nil {
		if opts.Mapper, err = NewRESTMapper(cfg, opts.HTTPClient); err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
	}
	c := &client{
		resources: resources{cfg: cfg, hc: opts.HTTPClient, mapper: opts.Mapper},
		scheme:    opts.Scheme,
		protobuf:  cfg.ContentType == "" || cfg.ContentType == protobufType,
		defaults:  WriteOptions{FieldManager: opts.FieldOwner, FieldValidation: opts.FieldValidation},
	}
	if opts.DryRun != nil && *opts.DryRun {
		c.defaults.DryRun = []string{metav1.DryRunAll}
	}
	if opts.Cache != nil && opts.Cache.Reader != nil {
		c.cache = opts.Cache.Reader
		c.cacheUnstructured = opts.Cache.Unstructured
		if c.consistency, err = newConsistency(opts.Cache); err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
		c.uncached = make(map[schema.GroupVersionKind]bool, len(opts.Cache.DisableFor))
		for _, obj := range opts.Cache.DisableFor {
			gvk, err := c.GroupVersionKindFor(obj)
			if err != nil {
				return nil, fmt.Errorf("client: a kind that is not to be cached: %w", err)
			}
			c.uncached[itemKind(gvk, obj)] = true
		}
	}
	return c, nil
}

type client struct {
	resources resources
	scheme    *runtime.Scheme
	protobuf  bool         // where both sides know it
	defaults  WriteOptions // of all writes

	cache             Reader // nil: none
	cacheUnstructured bool
	uncached          map[schema.GroupVersionKind]bool
	consistency       *consistency // nil: reads do not wait
}

func (c *client) Scheme() *runtime.Scheme     { return c.scheme }
func (c *client) RESTMapper() meta.RESTMapper { return c.resources.mapper }

func (c *client) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return GVKForObject(obj, c.scheme)
}

func (c *client) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	return IsObjectNamespaced(obj, c.scheme, c.resources.mapper)
}

// readsCache reports whether objects of a kind are read from the cache.
func (c *client) readsCache(obj runtime.Object, gvk schema.GroupVersionKind) bool {
	return c.cache != nil && !c.uncached[itemKind(gvk, obj)] && (c.cacheUnstructured || formOf(obj) != unstructured)
}

func (c *client) Get(ctx context.Context, key ObjectKey, obj Object, opts ...GetOption) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	o := new(GetOptions).ApplyOptions(opts)
	if c.readsCache(obj, gvk) {
		if c.consistency != nil && !o.Stale {
			if err := c.consistency.wait(ctx, gvk, obj, key); err != nil {
				return err
			}
		}
		return c.cache.Get(ctx, key, obj, opts...)
	}
	return c.one(ctx, http.MethodGet, gvk, key).params(o.AsGetOptions()).do(ctx, obj)
}

func (c *client) List(ctx context.Context, list ObjectList, opts ...ListOption) error {
	gvk, err := c.listKind(list)
	if err != nil {
		return err
	}
	o := new(ListOptions).ApplyOptions(opts)
	if err := o.Err(); err != nil {
		return err
	}
	if c.readsCache(list, gvk) {
		if c.consistency != nil && !o.Stale {
			if err := c.consistency.wait(ctx, gvk, list, ObjectKey{Namespace: o.Namespace}); err != nil {
				return err
			}
		}
		return c.cache.List(ctx, list, opts...)
	}
	if o.selectsNothing() {
		return clearList(list, gvk)
	}
	return c.all(ctx, http.MethodGet, itemKind(gvk, list), o.Namespace).params(o.AsListOptions()).decodeAs(gvk).do(ctx, list)
}

func (c *client) Create(ctx context.Context, obj Object, opts ...CreateOption) error {
	gvk, err := c.writable(obj)
	if err != nil {
		return err
	}
	if obj.GetName() == "" && obj.GetGenerateName() == "" && !isReview(gvk) {
		return fmt.Errorf("create %s: the object has neither metadata.name nor metadata.generateName", gvk.Kind)
	}
	o := c.writeOptions(opts)
	if err := c.all(ctx, http.MethodPost, gvk, obj.GetNamespace()).inNamespace().params(o.AsCreateOptions()).body(obj, gvk).do(ctx, obj); err != nil {
		return err
	}
	c.wrote(gvk, obj, gvk, o)
	return nil
}

// isReview reports whether objects of a kind are questions, which need no name.
func isReview(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "authorization.k8s.io" || gvk.Group == "authentication.k8s.io"
}

func (c *client) Update(ctx context.Context, obj Object, opts ...UpdateOption) error {
	gvk, err := c.writable(obj)
	if err != nil {
		return err
	}
	o := c.writeOptions(opts)
	if err := c.one(ctx, http.MethodPut, gvk, ObjectKeyFromObject(obj)).params(o.AsUpdateOptions()).body(obj, gvk).do(ctx, obj); err != nil {
		return err
	}
	c.wrote(gvk, obj, gvk, o)
	return nil
}

func (c *client) Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	o := c.writeOptions(opts)
	if err := c.one(ctx, http.MethodPatch, gvk, ObjectKeyFromObject(obj)).params(o.AsPatchOptions()).patch(patch, obj, gvk).do(ctx, obj); err != nil {
		return err
	}
	c.wrote(gvk, obj, gvk, o)
	return nil
}

func (c *client) Delete(ctx context.Context, obj Object, opts ...DeleteOption) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	o := c.deleteOptions(new(DeleteOptions).ApplyOptions(opts))
	key := ObjectKeyFromObject(obj)
	answer, _, err := c.one(ctx, http.MethodDelete, gvk, key).deletes(o.AsDeleteOptions()).send(ctx, jsonType)
	if err != nil {
		return err
	}
	if obj.GetResourceVersion() != "" {
		// The cache may not have seen the object yet, because another client has created it.
		c.wrote(gvk, obj, gvk, &WriteOptions{DryRun: o.DryRun, Stale: o.Stale})
	}
	c.deleted(gvk, key, obj.GetUID(), answer, o)
	return nil
}

func (c *client) DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	o := new(DeleteAllOfOptions).ApplyOptions(opts)
	if err := o.Err(); err != nil {
		return err
	}
	if o.selectsNothing() {
		return nil
	}
	del := c.deleteOptions(&o.DeleteOptions)
	r := c.all(ctx, http.MethodDelete, gvk, o.Namespace).params(o.AsListOptions()).deletes(del.AsDeleteOptions())
	answer, _, err := r.send(ctx, jsonType)
	if err != nil {
		return err
	}
	c.deleted(gvk, ObjectKey{}, "", answer, del)
	return nil
}

// wrote makes later reads from the cache wait for a write of an object of a kind. obj is the
// response, of kind answer: the object, or a subresource.
func (c *client) wrote(gvk schema.GroupVersionKind, obj Object, answer schema.GroupVersionKind, o *WriteOptions) {
	if c.consistency != nil && !o.Stale && len(o.DryRun) == 0 && !c.uncached[gvk] {
		c.consistency.wrote(gvk, obj, gvk == answer)
	}
}

// deleted makes later reads from the cache wait for a deletion: of the object of a key, or of all
// objects that the response lists.
func (c *client) deleted(gvk schema.GroupVersionKind, key ObjectKey, uid types.UID, answer []byte, o *DeleteOptions) {
	if c.consistency != nil && !o.Stale && len(o.DryRun) == 0 && !c.uncached[gvk] {
		c.consistency.deletedAs(gvk, key, uid, answer)
	}
}

// listKind returns the kind of a list. It returns an error if the kind is not one of a list.
// Untyped lists may also have the kind of their items.
func (c *client) listKind(list ObjectList) (schema.GroupVersionKind, error) {
	gvk, err := c.GroupVersionKindFor(list)
	if err != nil {
		return gvk, err
	}
	if !isList(list) {
		return gvk, fmt.Errorf("list %s: %T is not a list type", gvk.Kind, list)
	}
	if formOf(list) != typed && !strings.HasSuffix(gvk.Kind, "List") {
		gvk.Kind += "List"
	}
	return gvk, nil
}

// writable returns the kind of an object that is sent as a whole.
func (c *client) writable(obj Object) (schema.GroupVersionKind, error) {
	gvk, err := c.GroupVersionKindFor(obj)
	if err == nil && formOf(obj) == metadata {
		err = fmt.Errorf("write %s: a PartialObjectMetadata can be patched, but neither created nor updated", gvk.Kind)
	}
	return gvk, err
}

// writeOptions returns the options of a write, with the defaults of the client.
func (c *client) writeOptions(opts []WriteOption) *WriteOptions {
	o := new(WriteOptions).ApplyOptions(opts)
	if c.defaults.DryRun != nil {
		o.DryRun = c.defaults.DryRun
	}
	if o.FieldManager == "" {
		o.FieldManager = c.defaults.FieldManager
	}
	if o.FieldValidation == "" {
		o.FieldValidation = c.defaults.FieldValidation
	}
	return o
}

// deleteOptions returns the options of a deletion, with the defaults of the client.
func (c *client) deleteOptions(o *DeleteOptions) *DeleteOptions {
	if c.defaults.DryRun != nil {
		o.DryRun = c.defaults.DryRun
	}
	return o
}

// selectsNothing reports whether a selector matches no object. Sent to a server, it would match
// all.
func (o *ListOptions) selectsNothing() bool {
	return o.LabelSelector != nil && !o.LabelSelector.Empty() && o.LabelSelector.String() == "" ||
		o.FieldSelector != nil && !o.FieldSelector.Empty() && o.FieldSelector.String() == ""
}

// clearList empties a list.
func clearList(list ObjectList, gvk schema.GroupVersionKind) error {
	empty, err := json.Marshal(map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "items": []any{}})
	if err != nil {
		return err
	}
	return decode(empty, jsonType, list, gvk)
}
