package webhook

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/kapok-dev/kapok/convert"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Converter converts objects of a kind between versions: src to dst, in which only apiVersion and
// kind are set. It must be safe for concurrent use.
type Converter interface {
	ConvertObject(ctx context.Context, src, dst runtime.Object) error
}

// A Hub is the version of a kind through which all conversions go.
type Hub interface {
	runtime.Object
	Hub()
}

// A Convertible is a version of a kind that converts itself to and from the Hub.
type Convertible interface {
	runtime.Object
	// ConvertTo sets dst to the receiver.
	ConvertTo(dst Hub) error
	// ConvertFrom sets the receiver to src.
	ConvertFrom(src Hub) error
}

// Converters are the Converters of a Server by kind. A kind without one converts itself by its
// methods of Hub and Convertible.
type Converters struct {
	mu     sync.RWMutex
	byKind map[schema.GroupKind]Converter
}

// Register adds the Converter of a kind. It returns an error if the kind has one.
func (c *Converters) Register(kind schema.GroupKind, converter Converter) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKind[kind]; ok {
		return fmt.Errorf("a converter of %s is already registered", kind)
	}
	if c.byKind == nil {
		c.byKind = map[schema.GroupKind]Converter{}
	}
	c.byKind[kind] = converter
	return nil
}

func (c *Converters) get(kind schema.GroupKind) (Converter, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	converter, ok := c.byKind[kind]
	return converter, ok
}

// Convert returns a Converter made of rules of package convert, for WithConverter:
//
//	webhook.NewWebhookManagedBy(mgr, &v1.At{}).WithConverter(webhook.Convert(convert.Spoke(toHub, fromHub))).Complete()
func Convert(rules ...convert.Rule) func(*runtime.Scheme) (Converter, error) {
	return func(scheme *runtime.Scheme) (Converter, error) {
		c, err := convert.New(scheme, rules...)
		if err != nil {
			return nil, err
		}
		return byRules{c}, nil
	}
}

type byRules struct{ *convert.Converter }

func (c byRules) ConvertObject(_ context.Context, src, dst runtime.Object) error {
	return c.Convert(src, dst, nil)
}

// A SpokeConverter converts between one version and the hub. NewSpokeConverter returns one.
type SpokeConverter[H runtime.Object] interface {
	// GetSpoke returns an empty object of the version.
	GetSpoke() runtime.Object
	// ConvertHubToSpoke sets spoke to hub.
	ConvertHubToSpoke(ctx context.Context, hub H, spoke runtime.Object) error
	// ConvertSpokeToHub sets hub to spoke.
	ConvertSpokeToHub(ctx context.Context, spoke runtime.Object, hub H) error
}

// NewSpokeConverter returns a SpokeConverter made of two functions, which fill in dst.
func NewSpokeConverter[H, S runtime.Object](
	spoke S,
	hubToSpoke func(ctx context.Context, src H, dst S) error,
	spokeToHub func(ctx context.Context, src S, dst H) error,
) SpokeConverter[H] {
	return spokeFuncs[H, S]{spoke, hubToSpoke, spokeToHub}
}

type spokeFuncs[H, S runtime.Object] struct {
	spoke      S
	hubToSpoke func(ctx context.Context, src H, dst S) error
	spokeToHub func(ctx context.Context, src S, dst H) error
}

func (s spokeFuncs[H, S]) GetSpoke() runtime.Object { return s.spoke }

func (s spokeFuncs[H, S]) ConvertHubToSpoke(ctx context.Context, hub H, spoke runtime.Object) error {
	return s.hubToSpoke(ctx, hub, spoke.(S))
}

func (s spokeFuncs[H, S]) ConvertSpokeToHub(ctx context.Context, spoke runtime.Object, hub H) error {
	return s.spokeToHub(ctx, spoke.(S), hub)
}

// NewHubSpokeConverter returns a Converter for WithConverter. It needs one spoke for each version
// in the scheme except the hub.
func NewHubSpokeConverter[H runtime.Object](hub H, spokes ...SpokeConverter[H]) func(*runtime.Scheme) (Converter, error) {
	return func(scheme *runtime.Scheme) (Converter, error) {
		hubKind, err := kindOf(scheme, hub)
		if err != nil {
			return nil, fmt.Errorf("the hub: %w", err)
		}
		c := hubSpoke[H]{scheme: scheme, hub: hubKind, spokes: map[schema.GroupVersionKind]SpokeConverter[H]{}}
		for _, spoke := range spokes {
			kind, err := kindOf(scheme, spoke.GetSpoke())
			switch {
			case err != nil:
				return nil, fmt.Errorf("a spoke of %s: %w", hubKind.GroupKind(), err)
			case kind.GroupKind() != hubKind.GroupKind():
				return nil, fmt.Errorf("%s is not a version of %s", kind, hubKind.GroupKind())
			case kind == hubKind:
				return nil, fmt.Errorf("%s is both a spoke and the hub", kind)
			case c.spokes[kind] != nil:
				return nil, fmt.Errorf("spoke %s is given twice", kind)
			}
			c.spokes[kind] = spoke
		}
		for _, kind := range versionsOf(scheme, hubKind.GroupKind()) {
			if kind != hubKind && c.spokes[kind] == nil {
				return nil, fmt.Errorf("%s has no spoke", kind)
			}
		}
		return c, nil
	}
}

type hubSpoke[H runtime.Object] struct {
	scheme *runtime.Scheme
	hub    schema.GroupVersionKind
	spokes map[schema.GroupVersionKind]SpokeConverter[H]
}

func (c hubSpoke[H]) ConvertObject(ctx context.Context, src, dst runtime.Object) error {
	hub, ok := src.(H)
	if from := src.GetObjectKind().GroupVersionKind(); !ok || from != c.hub {
		spoke := c.spokes[from]
		if spoke == nil {
			return fmt.Errorf("%s is not convertible", from)
		}
		made, err := c.scheme.New(c.hub)
		if err != nil {
			return err
		}
		if dst.GetObjectKind().GroupVersionKind() == c.hub {
			made = dst
		}
		if hub, ok = made.(H); !ok {
			return fmt.Errorf("the scheme makes a %T of %s, want %T", made, c.hub, hub)
		}
		if err := spoke.ConvertSpokeToHub(ctx, src, hub); err != nil {
			return fmt.Errorf("to the hub %s: %w", c.hub, err)
		}
		if made == dst {
			return nil
		}
	}
	to := dst.GetObjectKind().GroupVersionKind()
	spoke := c.spokes[to]
	if spoke == nil {
		return fmt.Errorf("%s is not convertible", to)
	}
	return spoke.ConvertHubToSpoke(ctx, hub, dst)
}

// bySelf converts kinds whose versions implement Hub and Convertible.
type bySelf struct{ scheme *runtime.Scheme }

func (c bySelf) ConvertObject(_ context.Context, src, dst runtime.Object) error {
	hub, ok := src.(Hub)
	if !ok {
		from, ok := src.(Convertible)
		if !ok {
			return fmt.Errorf("%T is not convertible to %T", src, dst)
		}
		if to, ok := dst.(Hub); ok {
			return from.ConvertTo(to)
		}
		var err error
		if hub, err = c.newHub(src.GetObjectKind().GroupVersionKind().GroupKind()); err != nil {
			return err
		}
		if err := from.ConvertTo(hub); err != nil {
			return fmt.Errorf("to the hub %T: %w", hub, err)
		}
	}
	to, ok := dst.(Convertible)
	if !ok {
		return fmt.Errorf("%T is not convertible to %T", src, dst)
	}
	return to.ConvertFrom(hub)
}

func (c bySelf) newHub(kind schema.GroupKind) (Hub, error) {
	hubs, _, _ := rolesOf(c.scheme, kind)
	if len(hubs) != 1 {
		return nil, fmt.Errorf("%s has %d hubs, want one", kind, len(hubs))
	}
	return hubs[0], nil
}

// IsConvertible reports whether the versions of the kind of obj convert themselves: one is a Hub,
// and all others are Convertible. It returns an error if only some of them are.
func IsConvertible(scheme *runtime.Scheme, obj runtime.Object) (bool, error) {
	gvk, err := kindOf(scheme, obj)
	if err != nil {
		return false, err
	}
	hubs, spokes, others := rolesOf(scheme, gvk.GroupKind())
	switch {
	case len(hubs)+len(spokes)+len(others) < 2, len(hubs)+len(spokes) == 0:
		return false, nil
	case len(hubs) != 1:
		return false, fmt.Errorf("%s has %d hubs, want one", gvk.GroupKind(), len(hubs))
	case len(others) > 0:
		return false, fmt.Errorf("%s has a hub, but %T is not convertible to it", gvk.GroupKind(), others[0])
	}
	return true, nil
}

// rolesOf returns an object of each version of a kind, by the interfaces that it implements.
func rolesOf(scheme *runtime.Scheme, kind schema.GroupKind) (hubs []Hub, spokes []Convertible, others []runtime.Object) {
	for _, gvk := range versionsOf(scheme, kind) {
		obj, err := scheme.New(gvk)
		if err != nil {
			continue // it is one of the known types
		}
		switch obj := obj.(type) {
		case Hub:
			hubs = append(hubs, obj)
		case Convertible:
			spokes = append(spokes, obj)
		default:
			others = append(others, obj)
		}
	}
	return hubs, spokes, others
}

// versionsOf returns the versions of a kind in a scheme, without the internal one, which is never
// sent.
func versionsOf(scheme *runtime.Scheme, kind schema.GroupKind) []schema.GroupVersionKind {
	var gvks []schema.GroupVersionKind
	for _, gv := range scheme.VersionsForGroupKind(kind) {
		if gv.Version != runtime.APIVersionInternal && !slices.Contains(gvks, gv.WithKind(kind.Kind)) {
			gvks = append(gvks, gv.WithKind(kind.Kind))
		}
	}
	return gvks
}

// kindOf returns the only kind that a scheme has for an object.
func kindOf(scheme *runtime.Scheme, obj runtime.Object) (schema.GroupVersionKind, error) {
	gvks, _, err := scheme.ObjectKinds(obj)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	if len(gvks) != 1 {
		return schema.GroupVersionKind{}, fmt.Errorf("%T is registered as %d kinds, want one: %v", obj, len(gvks), gvks)
	}
	return gvks[0], nil
}
