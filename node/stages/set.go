package stages

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	kwok "sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

// A kind is the kind of the objects of a Stage.
type kind = schema.GroupVersionKind

var (
	podKind  = corev1.SchemeGroupVersion.WithKind("Pod")
	nodeKind = corev1.SchemeGroupVersion.WithKind("Node")
)

// newObject returns an empty object of a kind. Pods and nodes have Go types: by these, KWOK's library chooses the type of patches.
func newObject(k kind) client.Object {
	switch k {
	case podKind:
		return &corev1.Pod{}
	case nodeKind:
		return &corev1.Node{}
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k)
	return u
}

func newList(k kind) client.ObjectList {
	switch k {
	case podKind:
		return &corev1.PodList{}
	case nodeKind:
		return &corev1.NodeList{}
	}
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
	return u
}

// eventOf returns an object in the form in which KWOK's library matches it.
func eventOf(o client.Object) *lifecycle.Event {
	return &lifecycle.Event{Labels: labels.Set(o.GetLabels()), Annotations: labels.Set(o.GetAnnotations()), Data: o}
}

// A compiled stage is ready to be matched, by several goroutines at once.
type compiled struct {
	name  string
	kind  kind
	stage *lifecycle.Stage // nil without a selector: it matches nothing
}

// compile compiles a stage, and returns an error for expressions that cannot be compiled.
func compile(ctx context.Context, s *kwok.Stage) (*compiled, error) {
	gv, err := schema.ParseGroupVersion(s.Spec.ResourceRef.APIGroup)
	if err != nil || s.Spec.ResourceRef.Kind == "" {
		return nil, fmt.Errorf("spec.resourceRef: apiGroup %q and kind %q must name a version and a kind, such as apps/v1 and Deployment",
			s.Spec.ResourceRef.APIGroup, s.Spec.ResourceRef.Kind)
	}
	internal, err := internalversion.ConvertToInternalStage(s)
	if err != nil {
		return nil, err
	}
	c := &compiled{name: s.Name, kind: gv.WithKind(s.Spec.ResourceRef.Kind)}
	c.stage = lifecycle.NewStage(internal)
	if c.stage == nil {
		return c, nil
	}
	// The library compiles at the first match, without a lock, and only once: a second match repeats an error of the evaluation, but not
	// one of compilation.
	example := eventOf(newObject(c.kind))
	_, first := lifecycle.Lifecycle{c.stage}.ListAllPossible(ctx, example)
	if first == nil {
		return c, nil
	}
	if _, second := (lifecycle.Lifecycle{c.stage}).ListAllPossible(ctx, example); second == nil || second.Error() != first.Error() {
		return nil, first
	}
	return c, nil
}

// A set has the stages that are known.
type set struct {
	mu     sync.RWMutex
	own    map[string]*compiled // of the options
	server map[string]*compiled
	kinds  map[kind][]*compiled // those that count, in the order of their names
}

func newSet() *set {
	return &set{own: map[string]*compiled{}, server: map[string]*compiled{}, kinds: map[kind][]*compiled{}}
}

// put replaces a stage of the options or of the server, which nil removes, and returns the kinds that this concerns.
func (s *set) put(server bool, name string, c *compiled) []kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	into := s.own
	if server {
		into = s.server
	}
	var concerned []kind
	for _, known := range []*compiled{s.own[name], s.server[name], c} {
		if known != nil && !slices.Contains(concerned, known.kind) {
			concerned = append(concerned, known.kind)
		}
	}
	if c == nil {
		delete(into, name)
	} else {
		into[name] = c
	}
	for _, k := range concerned {
		s.sortLocked(k)
	}
	return concerned
}

func (s *set) sortLocked(k kind) {
	var all []*compiled
	for name, c := range s.own {
		if s.server[name] == nil && c.kind == k && c.stage != nil {
			all = append(all, c)
		}
	}
	for _, c := range s.server {
		if c.kind == k && c.stage != nil {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *compiled) int { return strings.Compare(a.name, b.name) })
	if len(all) == 0 {
		delete(s.kinds, k)
		return
	}
	s.kinds[k] = all
}

// of returns the stages of a kind.
func (s *set) of(k kind) []*compiled {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.kinds[k]
}

// has reports whether there are stages of a kind.
func (s *set) has(gk schema.GroupKind) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for k := range s.kinds {
		if k.GroupKind() == gk {
			return true
		}
	}
	return false
}

// match returns the stage for an object, chosen by weight if several match; nil if none does. A stage whose expressions cannot be
// evaluated does not match, and its error is among the errors.
func (s *set) match(ctx context.Context, k kind, event *lifecycle.Event) (*lifecycle.Stage, error) {
	var matching lifecycle.Lifecycle
	var failed error
	for _, c := range s.of(k) {
		found, err := lifecycle.Lifecycle{c.stage}.ListAllPossible(ctx, event)
		if err != nil {
			failed = fmt.Errorf("stage %s: %w", c.name, err)
			continue
		}
		matching = append(matching, found...)
	}
	switch len(matching) {
	case 0:
		return nil, failed
	case 1:
		return matching[0], nil
	}
	return matching.Match(ctx, event)
}
