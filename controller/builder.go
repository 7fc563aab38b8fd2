package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controller/predicate"
	"github.com/kapok-dev/kapok/manager"
)

// A Builder makes a controller of a Reconciler and of what it is to hear of.
type Builder struct {
	manager    manager.Manager
	name       string
	reconciled *input // For
	owned      []*input
	watched    []*input
	sources    []Source
	predicates []predicate.Predicate
	opts       Options
	err        error // what is wrong so far
}

// NewControllerManagedBy begins a controller that a manager is to run.
func NewControllerManagedBy(m manager.Manager) *Builder { return &Builder{manager: m} }

// An input is a kind that a controller hears of, and how.
type input struct {
	obj          client.Object
	handler      handler.EventHandler // of Watches
	predicates   []predicate.Predicate
	onlyMetadata bool
	everyOwner   bool
}

// A ForOption is an option of Builder.For.
type ForOption interface{ applyToFor(*input) }

// An OwnsOption is an option of Builder.Owns.
type OwnsOption interface{ applyToOwns(*input) }

// A WatchesOption is an option of Builder.Watches.
type WatchesOption interface{ applyToWatches(*input) }

// Predicates is an option of For, Owns, Watches and Channel.
type Predicates struct{ predicates []predicate.Predicate }

// WithPredicates has the controller hear only of events that all predicates let pass.
func WithPredicates(p ...predicate.Predicate) Predicates { return Predicates{p} }

func (p Predicates) applyToFor(in *input)      { in.predicates = append(in.predicates, p.predicates...) }
func (p Predicates) applyToOwns(in *input)     { p.applyToFor(in) }
func (p Predicates) applyToWatches(in *input)  { p.applyToFor(in) }
func (p Predicates) applyToChannel(c *channel) { c.predicates = append(c.predicates, p.predicates...) }

type (
	onlyMetadata    struct{}
	matchEveryOwner struct{}
)

var (
	// OnlyMetadata has the cache keep nothing but the metadata of a kind. The Reconciler must then read it as
	// metav1.PartialObjectMetadata: else the cache keeps the objects as well, and may give a state that is older than the event.
	OnlyMetadata = onlyMetadata{}
	// MatchEveryOwner has all owners of the kind of For reconciled, rather than the one that controls an object.
	MatchEveryOwner = matchEveryOwner{}
)

func (onlyMetadata) applyToFor(in *input)     { in.onlyMetadata = true }
func (onlyMetadata) applyToOwns(in *input)    { in.onlyMetadata = true }
func (onlyMetadata) applyToWatches(in *input) { in.onlyMetadata = true }
func (matchEveryOwner) applyToOwns(in *input) { in.everyOwner = true }

// For has objects of the type of obj reconciled when something happens to them. It names the controller, unless Named does. There
// is one such type.
func (b *Builder) For(obj client.Object, opts ...ForOption) *Builder {
	if b.reconciled != nil {
		b.err = errors.Join(b.err, errors.New("For is called more than once"))
	}
	b.reconciled = &input{obj: obj}
	for _, opt := range opts {
		opt.applyToFor(b.reconciled)
	}
	return b
}

// Owns has the object of For reconciled when something happens to an object of the type of obj that it controls.
func (b *Builder) Owns(obj client.Object, opts ...OwnsOption) *Builder {
	in := &input{obj: obj}
	for _, opt := range opts {
		opt.applyToOwns(in)
	}
	b.owned = append(b.owned, in)
	return b
}

// Watches has a handler say what is to be reconciled when something happens to an object of the type of obj.
func (b *Builder) Watches(obj client.Object, h handler.EventHandler, opts ...WatchesOption) *Builder {
	in := &input{obj: obj, handler: h}
	for _, opt := range opts {
		opt.applyToWatches(in)
	}
	b.watched = append(b.watched, in)
	return b
}

// WatchesMetadata is Watches with OnlyMetadata.
func (b *Builder) WatchesMetadata(obj client.Object, h handler.EventHandler, opts ...WatchesOption) *Builder {
	return b.Watches(obj, h, append(slices.Clip(opts), OnlyMetadata)...)
}

// WatchesRawSource adds a source. WithEventFilter does not concern it.
func (b *Builder) WatchesRawSource(s Source) *Builder {
	b.sources = append(b.sources, s)
	return b
}

// WithEventFilter adds a predicate to all of For, Owns and Watches.
func (b *Builder) WithEventFilter(p predicate.Predicate) *Builder {
	b.predicates = append(b.predicates, p)
	return b
}

// WithOptions sets the options of the controller.
func (b *Builder) WithOptions(opts Options) *Builder {
	b.opts = opts
	return b
}

// Named names the controller in metrics and logs. Default: the kind of For in lower case.
func (b *Builder) Named(name string) *Builder {
	b.name = name
	return b
}

// Complete makes the controller, and adds it to the manager.
func (b *Builder) Complete(r Reconciler) error {
	_, err := b.Build(r)
	return err
}

// Build is Complete, and returns the controller.
func (b *Builder) Build(r Reconciler) (Controller, error) {
	c, err := b.build(r)
	if err != nil {
		return nil, fmt.Errorf("build a controller: %w", err)
	}
	return c, nil
}

func (b *Builder) build(r Reconciler) (Controller, error) {
	switch {
	case b.err != nil:
		return nil, b.err
	case b.manager == nil:
		return nil, errors.New("the manager is nil")
	case r == nil && b.opts.Reconciler == nil:
		return nil, errors.New("the Reconciler is nil")
	case r != nil && b.opts.Reconciler != nil:
		return nil, errors.New("there are two Reconcilers, one in WithOptions")
	case b.reconciled == nil && len(b.owned) > 0:
		return nil, errors.New("Owns needs For")
	case b.reconciled == nil && len(b.watched)+len(b.sources) == 0:
		return nil, errors.New("nothing is watched: call For, Watches or WatchesRawSource")
	case b.reconciled == nil && b.name == "":
		return nil, errors.New("the controller has no name: call For or Named")
	}
	opts := b.opts
	if r != nil {
		opts.Reconciler = r
	}
	name, err := b.complete(&opts)
	if err != nil {
		return nil, err
	}
	sources, err := b.kinds()
	if err != nil {
		return nil, err
	}
	opts.inherit(b.manager)
	c, err := newController(name, opts)
	if err != nil {
		return nil, err
	}
	for _, s := range append(sources, b.sources...) {
		if err := c.Watch(s); err != nil {
			return nil, err
		}
	}
	// Not before: a manager that runs starts it at once, and it is to wait for all of them.
	if err := b.manager.Add(c); err != nil {
		return nil, err
	}
	return c, nil
}

// complete adds to options what the kind of For says, and returns the name of the controller.
func (b *Builder) complete(opts *Options) (name string, err error) {
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
		opts.LogConstructor = logConstructor(log, gvk.Kind)
	}
	return name, nil
}

// kinds are the sources of For, Owns and Watches.
func (b *Builder) kinds() (sources []Source, err error) {
	var all []*input
	if b.reconciled != nil {
		b.reconciled.handler = handler.EnqueueRequestForObject{}
		all = append(all, b.reconciled)
	}
	for _, in := range b.owned {
		var opts []handler.OwnerOption
		if !in.everyOwner {
			opts = append(opts, handler.OnlyControllerOwner())
		}
		in.handler = handler.EnqueueRequestForOwner(b.manager.GetScheme(), b.manager.GetRESTMapper(), b.reconciled.obj, opts...)
		all = append(all, in)
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
		sources = append(sources, Kind(b.manager.GetCache(), obj, in.handler, slices.Concat(b.predicates, in.predicates)...))
	}
	return sources, nil
}

func (b *Builder) kindOf(obj client.Object) (schema.GroupVersionKind, error) {
	if obj == nil {
		return schema.GroupVersionKind{}, errors.New("the object whose kind is watched is nil")
	}
	return client.GVKForObject(obj, b.manager.GetScheme())
}
