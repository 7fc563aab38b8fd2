package controller

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controller/predicate"
	"github.com/kapok-dev/kapok/manager"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Builder is a TypedBuilder whose requests are keys of objects.
type Builder = TypedBuilder[Request]

// A TypedBuilder builds a controller from a Reconciler and the kinds and sources that it watches.
// It is not safe for concurrent use.
type TypedBuilder[request comparable] struct {
	manager        manager.Manager
	name           string
	reconciled     *input // For
	owned          []*input
	watched        []watched[request]
	sources        []TypedSource[request]
	predicates     []predicate.Predicate
	opts           TypedOptions[request]
	logConstructor func(*request) logr.Logger // nil: the one of the options
	err            error                      // the errors of earlier calls
}

// NewControllerManagedBy returns a Builder of a controller that m runs.
func NewControllerManagedBy(m manager.Manager) *Builder { return TypedControllerManagedBy[Request](m) }

// TypedControllerManagedBy is NewControllerManagedBy for requests of another type:
//
//	type Request struct {
//		Cluster string
//		types.NamespacedName
//	}
//	...
//	err := controller.TypedControllerManagedBy[Request](mgr).Named("pods").
//		WatchesRawSource(controller.TypedKind(mgr.GetCache(), &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(requests))).
//		Complete(r)
func TypedControllerManagedBy[request comparable](m manager.Manager) *TypedBuilder[request] {
	return &TypedBuilder[request]{manager: m}
}

// An input is a kind that a controller watches, with its options.
type input struct {
	obj          client.Object
	predicates   []predicate.Predicate
	onlyMetadata bool
	everyOwner   bool
}

// A watched kind is an input with its handler.
type watched[request comparable] struct {
	*input
	handler handler.TypedEventHandler[client.Object, request]
}

// A ForOption is an option of Builder.For.
type ForOption interface{ applyToFor(*input) }

// An OwnsOption is an option of Builder.Owns.
type OwnsOption interface{ applyToOwns(*input) }

// A WatchesOption is an option of Builder.Watches.
type WatchesOption interface{ applyToWatches(*input) }

// Predicates is an option of For, Owns, Watches and Channel.
type Predicates struct{ predicates []predicate.Predicate }

// WithPredicates drops events that one of the predicates rejects.
func WithPredicates(p ...predicate.Predicate) Predicates { return Predicates{p} }

func (p Predicates) applyToFor(in *input)     { in.predicates = append(in.predicates, p.predicates...) }
func (p Predicates) applyToOwns(in *input)    { p.applyToFor(in) }
func (p Predicates) applyToWatches(in *input) { p.applyToFor(in) }

func (p Predicates) applyToChannel(c *channel[client.Object, Request]) {
	c.predicates = append(c.predicates, p.predicates...)
}

type (
	onlyMetadata    struct{}
	matchEveryOwner struct{}
)

var (
	// OnlyMetadata caches only the metadata of a kind. The Reconciler must read it as
	// metav1.PartialObjectMetadata: otherwise the cache keeps the full objects as well, and a read
	// may return a state older than the event.
	OnlyMetadata = onlyMetadata{}
	// MatchEveryOwner reconciles all owners of the kind of For, instead of only the controller of
	// an object.
	MatchEveryOwner = matchEveryOwner{}
)

func (onlyMetadata) applyToFor(in *input)     { in.onlyMetadata = true }
func (onlyMetadata) applyToOwns(in *input)    { in.onlyMetadata = true }
func (onlyMetadata) applyToWatches(in *input) { in.onlyMetadata = true }
func (matchEveryOwner) applyToOwns(in *input) { in.everyOwner = true }

// For reconciles objects of the type of obj when they change. Their kind also names the controller,
// unless Named is called. For can be called once. For and Owns need requests of type Request.
func (b *TypedBuilder[request]) For(obj client.Object, opts ...ForOption) *TypedBuilder[request] {
	if b.reconciled != nil {
		b.err = errors.Join(b.err, errors.New("For is called more than once"))
	}
	b.reconciled = &input{obj: obj}
	for _, opt := range opts {
		opt.applyToFor(b.reconciled)
	}
	return b
}

// Owns reconciles the object of For when an object of the type of obj changes that it controls.
func (b *TypedBuilder[request]) Owns(obj client.Object, opts ...OwnsOption) *TypedBuilder[request] {
	in := &input{obj: obj}
	for _, opt := range opts {
		opt.applyToOwns(in)
	}
	b.owned = append(b.owned, in)
	return b
}

// Watches calls a handler when an object of the type of obj changes. The handler adds the requests
// to reconcile.
func (b *TypedBuilder[request]) Watches(obj client.Object, h handler.TypedEventHandler[client.Object, request], opts ...WatchesOption) *TypedBuilder[request] {
	in := &input{obj: obj}
	for _, opt := range opts {
		opt.applyToWatches(in)
	}
	b.watched = append(b.watched, watched[request]{in, h})
	return b
}

// WatchesMetadata is Watches with OnlyMetadata.
func (b *TypedBuilder[request]) WatchesMetadata(obj client.Object, h handler.TypedEventHandler[client.Object, request], opts ...WatchesOption) *TypedBuilder[request] {
	return b.Watches(obj, h, append(slices.Clip(opts), OnlyMetadata)...)
}

// WatchesRawSource adds a source. WithEventFilter does not apply to it.
func (b *TypedBuilder[request]) WatchesRawSource(s TypedSource[request]) *TypedBuilder[request] {
	b.sources = append(b.sources, s)
	return b
}

// WithEventFilter adds a predicate to all of For, Owns and Watches.
func (b *TypedBuilder[request]) WithEventFilter(p predicate.Predicate) *TypedBuilder[request] {
	b.predicates = append(b.predicates, p)
	return b
}

// WithOptions sets the options of the controller.
func (b *TypedBuilder[request]) WithOptions(opts TypedOptions[request]) *TypedBuilder[request] {
	b.opts = opts
	return b
}

// WithLogConstructor sets Options.LogConstructor. It has precedence over WithOptions.
func (b *TypedBuilder[request]) WithLogConstructor(log func(*request) logr.Logger) *TypedBuilder[request] {
	b.logConstructor = log
	return b
}

// Named sets the name of the controller in metrics and logs. Default: the kind of For in lower
// case.
func (b *TypedBuilder[request]) Named(name string) *TypedBuilder[request] {
	b.name = name
	return b
}

// Complete builds the controller and adds it to the manager. It returns an error if a call is
// missing or contradicts another, if a kind is not in the scheme, or if the name is in use.
func (b *TypedBuilder[request]) Complete(r TypedReconciler[request]) error {
	_, err := b.Build(r)
	return err
}

// Build is Complete that also returns the controller.
func (b *TypedBuilder[request]) Build(r TypedReconciler[request]) (TypedController[request], error) {
	c, err := b.build(r)
	if err != nil {
		return nil, fmt.Errorf("build a controller: %w", err)
	}
	return c, nil
}

func (b *TypedBuilder[request]) build(r TypedReconciler[request]) (TypedController[request], error) {
	switch {
	case b.err != nil:
		return nil, b.err
	case b.manager == nil:
		return nil, errors.New("the manager is nil")
	case r == nil && b.opts.Reconciler == nil:
		return nil, errors.New("the Reconciler is nil")
	case r != nil && b.opts.Reconciler != nil:
		return nil, errors.New("there are two Reconcilers: remove the one in WithOptions")
	case b.reconciled == nil && len(b.owned) > 0:
		return nil, errors.New("Owns is called without For")
	case b.reconciled == nil && len(b.watched)+len(b.sources) == 0:
		return nil, errors.New("nothing is watched: call For, Watches or WatchesRawSource")
	case b.reconciled == nil && b.name == "":
		return nil, errors.New("the controller has no name: call For or Named")
	}
	opts := b.opts
	if r != nil {
		opts.Reconciler = r
	}
	if b.logConstructor != nil {
		opts.LogConstructor = b.logConstructor
	}
	name, err := b.complete(&opts)
	if err != nil {
		return nil, err
	}
	sources, err := b.kinds()
	if err != nil {
		return nil, err
	}
	opts.inherit(name, b.manager)
	c, err := newController(name, opts)
	if err != nil {
		return nil, err
	}
	for _, s := range append(sources, b.sources...) {
		if err := c.Watch(s); err != nil {
			return nil, err
		}
	}
	// The controller is added last: a running manager starts it at once, and it must wait for all
	// sources.
	if err := b.manager.Add(c); err != nil {
		return nil, err
	}
	return c, nil
}

// complete sets the options that depend on the kind of For, and returns the name of the controller.
func (b *TypedBuilder[request]) complete(opts *TypedOptions[request]) (name string, err error) {
	if b.reconciled == nil {
		return b.name, nil
	}
	gvk, err := b.kindOf(b.reconciled.obj)
	if err != nil {
		return "", err
	}
	if name = b.name; name == "" {
		name = strings.ToLower(gvk.Kind)
	}
	defaults := b.manager.GetControllerOptions()
	if opts.MaxConcurrentReconciles <= 0 {
		opts.MaxConcurrentReconciles = defaults.GroupKindConcurrency[gvk.GroupKind().String()]
	}
	if opts.LogConstructor == nil {
		log := opts.Logger
		if log.GetSink() == nil {
			log = b.manager.GetLogger()
		}
		log = log.WithValues("controller", name, "controllerGroup", gvk.Group, "controllerKind", gvk.Kind)
		opts.LogConstructor = logConstructor[request](log, gvk.Kind)
	}
	return name, nil
}

// kinds returns the sources of For, Owns and Watches.
func (b *TypedBuilder[request]) kinds() (sources []TypedSource[request], err error) {
	var all []watched[request]
	add := func(in *input, h handler.EventHandler) error {
		typed, ok := h.(handler.TypedEventHandler[client.Object, request])
		if !ok {
			return fmt.Errorf("For and Owns add requests of type %v, not %v: call Watches or WatchesRawSource",
				reflect.TypeFor[Request](), reflect.TypeFor[request]())
		}
		all = append(all, watched[request]{in, typed})
		return nil
	}
	if b.reconciled != nil {
		if err := add(b.reconciled, handler.EnqueueRequestForObject{}); err != nil {
			return nil, err
		}
	}
	for _, in := range b.owned {
		var opts []handler.OwnerOption
		if !in.everyOwner {
			opts = append(opts, handler.OnlyControllerOwner())
		}
		if err := add(in, handler.EnqueueRequestForOwner(b.manager.GetScheme(), b.manager.GetRESTMapper(), b.reconciled.obj, opts...)); err != nil {
			return nil, err
		}
	}
	for _, in := range append(all, b.watched...) {
		gvk, err := b.kindOf(in.obj)
		if err != nil {
			return nil, err
		}
		if err := usable(in.handler); err != nil {
			return nil, fmt.Errorf("watch %v: %w", gvk, err)
		}
		obj := in.obj
		if in.onlyMetadata {
			metadata := &metav1.PartialObjectMetadata{}
			metadata.SetGroupVersionKind(gvk)
			obj = metadata
		}
		sources = append(sources, TypedKind(b.manager.GetCache(), obj, in.handler, slices.Concat(b.predicates, in.predicates)...))
	}
	return sources, nil
}

func (b *TypedBuilder[request]) kindOf(obj client.Object) (schema.GroupVersionKind, error) {
	if obj == nil {
		return schema.GroupVersionKind{}, errors.New("the object whose kind is watched is nil")
	}
	return client.GVKForObject(obj, b.manager.GetScheme())
}
