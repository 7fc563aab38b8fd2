package stages

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	kwok "sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/utils/expression"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

// A kind is the kind of the objects of a Stage.
type kind = schema.GroupVersionKind

var (
	podKind  = corev1.SchemeGroupVersion.WithKind("Pod")
	nodeKind = corev1.SchemeGroupVersion.WithKind("Node")
)

// newObject returns an empty object of a kind. Pods and nodes have Go types: by these, KWOK's
// library chooses the type of patches.
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
	spec  kwok.StageSpec
	stage *lifecycle.Stage // nil without a selector: it matches nothing
}

const (
	// compileTimeout limits the time for compiling the expressions of a stage, and matchTimeout that
	// for matching one object: jq has loops without an end.
	compileTimeout = 2 * time.Second
	matchTimeout   = time.Second
)

// compile compiles a stage, and returns an error for expressions and templates that cannot be
// compiled, and for events of unknown types.
func compile(ctx context.Context, s *kwok.Stage) (*compiled, error) {
	gv, err := schema.ParseGroupVersion(s.Spec.ResourceRef.APIGroup)
	if err != nil || s.Spec.ResourceRef.Kind == "" {
		return nil, fmt.Errorf("spec.resourceRef: apiGroup %q and kind %q must name a version and a kind, such as apps/v1 and Deployment",
			s.Spec.ResourceRef.APIGroup, s.Spec.ResourceRef.Kind)
	}
	if err := checkSteps(&s.Spec); err != nil {
		return nil, err
	}
	internal, err := internalversion.ConvertToInternalStage(s)
	if err != nil {
		return nil, err
	}
	c := &compiled{name: s.Name, kind: gv.WithKind(s.Spec.ResourceRef.Kind), spec: s.Spec}
	c.stage = lifecycle.NewStage(internal)
	if c.stage == nil {
		return c, nil
	}
	for i, e := range internal.Spec.Selector.MatchExpressions {
		if e.JQ == nil {
			continue
		}
		if _, err := expression.NewRequirement(e.JQ.Key, e.JQ.Operator, e.JQ.Values); err != nil {
			return nil, fmt.Errorf("spec.selector.matchExpressions[%d], key %q: %w", i, e.JQ.Key, err)
		}
	}
	// The library compiles at the first match, without a lock, and only once: a second match repeats
	// an error of the evaluation, but not one of compilation.
	ctx, cancel := context.WithTimeout(ctx, compileTimeout)
	defer cancel()
	example := eventOf(newObject(c.kind))
	_, first := c.matches(ctx, example)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("its expressions take longer than %v", compileTimeout)
	}
	if first == nil {
		return c, nil
	}
	if _, second := c.matches(ctx, example); second == nil || second.Error() != first.Error() {
		return nil, first
	}
	return c, nil
}

// matches reports whether a stage selects an object.
func (c *compiled) matches(ctx context.Context, event *lifecycle.Event) (bool, error) {
	found := false
	err := guarded(func() error {
		all, err := lifecycle.Lifecycle{c.stage}.ListAllPossible(ctx, event)
		found = len(all) > 0
		return err
	})
	return found, err
}

// guarded calls a function of the library, and returns a panic of it as an error: there are weights
// and delays with which it panics.
func guarded(do func() error) (err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = fmt.Errorf("%v", caught)
		}
	}()
	return do()
}

// A set has the stages that are known.
type set struct {
	mu     sync.RWMutex
	own    map[string]*compiled // of the options
	server map[string]*compiled
	kinds  map[kind][]*compiled // those that count, in the order of their names

	listeners []func(schema.GroupKind)
}

func newSet() *set {
	return &set{own: map[string]*compiled{}, server: map[string]*compiled{}, kinds: map[kind][]*compiled{}}
}

// put replaces a stage of the options or of the server, which nil removes, and returns the kinds
// that this concerns.
func (s *set) put(server bool, name string, c *compiled) []kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	into := s.own
	if server {
		into = s.server
	}
	if was := into[name]; was != nil && c != nil && was.kind == c.kind && reflect.DeepEqual(&was.spec, &c.spec) {
		return nil // only its metadata have changed
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

// listen adds a function that is called when the stages of a kind have changed.
func (s *set) listen(changed func(schema.GroupKind)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, changed)
}

// tell calls the functions of listen.
func (s *set) tell(gk schema.GroupKind) {
	s.mu.RLock()
	all := slices.Clone(s.listeners)
	s.mu.RUnlock()
	for _, changed := range all {
		changed(gk)
	}
}

// match returns the stage for an object, chosen by weight if several match; nil if none does. A
// stage whose expressions cannot be evaluated does not match; without another one its error is
// returned.
func (s *set) match(ctx context.Context, k kind, event *lifecycle.Event) (*lifecycle.Stage, error) {
	ctx, cancel := context.WithTimeout(ctx, matchTimeout)
	defer cancel()
	var matching lifecycle.Lifecycle
	var failed error
	for _, c := range s.of(k) {
		found, err := c.matches(ctx, event)
		if err == nil && ctx.Err() != nil {
			err = fmt.Errorf("its expressions take longer than %v", matchTimeout)
		}
		if err != nil {
			failed = fmt.Errorf("stage %s: %w", c.name, err)
			continue
		}
		if found {
			matching = append(matching, c.stage)
		}
	}
	switch len(matching) {
	case 0:
		return nil, failed
	case 1:
		return matching[0], nil
	}
	var chosen *lifecycle.Stage
	err := guarded(func() (err error) {
		chosen, err = matching.Match(ctx, event)
		return err
	})
	return chosen, err
}
