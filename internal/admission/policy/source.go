package policy

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	codec "github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/admission/match"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/tidwall/btree"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A policy is a compiled policy with bindings.
type policy struct {
	name     string
	params   *admissionv1.ParamKind // nil for none
	criteria *match.Criteria
	ignores  bool // failurePolicy is Ignore
	again    bool // reinvocationPolicy is IfNeeded
	// expressions compiles on first use.
	expressions func() *expressions
	bindings    *btree.Map[string, *binding] // by name; never empty
}

// A binding makes a policy effective.
type binding struct {
	name     string
	policy   string
	criteria *match.Criteria // nil matches everything that the policy matches
	params   *admissionv1.ParamRef
	selector labels.Selector // of params, unless they are named
	err      error           // of the selector
	actions  []admissionv1.ValidationAction
}

// A source compiles the policies and bindings of one kind in the store.
type source struct {
	store              *resource.Store
	policies, bindings schema.GroupResource
	readPolicy         func(resource.Tree) (*policy, error)
	readBinding        func(resource.Tree) (*binding, error)
	current            *state.Derived[*set]
	files              atomic.Pointer[[]*policy] // policies with bindings from files, sorted by name
}

// A set has the policies and bindings at one revision. It is immutable once fold has returned it;
// its trees share unchanged parts with the set before.
type set struct {
	active btree.Map[string, *policy] // policies with bindings, by name
	err    error                      // why the policies are not known

	stored     btree.Map[string, storedPolicy]
	bindings   btree.Map[string, *binding]
	bound      btree.Map[string, *btree.Map[string, *binding]] // by policy and binding
	unreadable btree.Map[string, error]                        // bindings, and policies with bindings

	work work // the work of the fold that returned this set
}

// work counts the objects that a fold read, and the policies that it compiled.
type work struct{ read, compiled int }

// A storedPolicy is a policy without its bindings.
type storedPolicy struct {
	revision revision
	policy   *policy
	err      error
}

// A revision identifies the spec of a policy by uid and generation.
type revision struct {
	uid        types.UID
	generation int64
}

func newSource(store *resource.Store, policies, bindings string, readPolicy func(resource.Tree) (*policy, error), readBinding func(resource.Tree) (*binding, error)) *source {
	s := &source{store: store, readPolicy: readPolicy, readBinding: readBinding}
	s.policies = schema.GroupResource{Group: admissionv1.GroupName, Resource: policies}
	s.bindings = schema.GroupResource{Group: admissionv1.GroupName, Resource: bindings}
	s.current = state.Derive(store.State(), s.fold, s.bindings, s.policies)
	s.files.Store(&[]*policy{})
	return s
}

// use puts policies and bindings from files in effect, in place of those before.
func (s *source) use(policies, bindings []resource.Tree) error {
	bound := map[string]*btree.Map[string, *binding]{}
	for _, obj := range bindings {
		b, err := s.readBinding(obj)
		if err != nil {
			return err
		}
		if bound[b.policy] == nil {
			bound[b.policy] = &btree.Map[string, *binding]{}
		}
		bound[b.policy].Set(b.name, b)
	}
	var active []*policy
	for _, obj := range policies {
		p, err := s.readPolicy(obj)
		if err != nil {
			return err
		}
		if p.bindings = bound[p.name]; p.bindings != nil {
			active = append(active, p)
		}
	}
	s.files.Store(&active)
	return nil
}

// handles reports whether any policy may match a request for a resource. It is cheap as long as
// policies do not change.
func (s *source) handles(gr schema.GroupResource) bool {
	if ofReviews(gr) {
		return false
	}
	if len(*s.files.Load()) > 0 {
		return true
	}
	if ofPolicies(gr) {
		return false
	}
	set := s.load()
	return set.active.Len() > 0 || set.err != nil
}

// of returns the policies for a resource in the order in which they are evaluated: those from files
// first. The error says why they are not known.
func (s *source) of(gr schema.GroupResource) (iter.Seq[*policy], error) {
	files := slices.Values(*s.files.Load())
	if ofPolicies(gr) {
		return files, nil
	}
	set := s.load()
	return func(yield func(*policy) bool) {
		for p := range files {
			if !yield(p) {
				return
			}
		}
		set.all()(yield)
	}, set.err
}

// load returns the present set.
func (s *source) load() *set { return s.current.Load() }

// all yields the policies in effect, sorted by name.
func (s *set) all() iter.Seq[*policy] {
	return func(yield func(*policy) bool) {
		s.active.Scan(func(_ string, p *policy) bool { return yield(p) })
	}
}

// all yields the bindings of a policy, sorted by name.
func (p *policy) all() iter.Seq[*binding] {
	return func(yield func(*binding) bool) {
		p.bindings.Scan(func(_ string, b *binding) bool { return yield(b) })
	}
}

// fold reads the objects that changed. A policy with an unchanged spec is not compiled again.
func (s *source) fold(last *set, c *state.Changes) *set {
	next := &set{}
	if last != nil {
		next.active, next.stored, next.bindings = *last.active.Copy(), *last.stored.Copy(), *last.bindings.Copy()
		next.bound, next.unreadable = *last.bound.Copy(), *last.unreadable.Copy()
	}
	own := map[string]*btree.Map[string, *binding]{} // the maps of next.bound that no other set shares
	changed := map[string]bool{}                     // policies, by name
	for key, o := range c.Objects() {
		if o != nil {
			next.work.read++
		}
		if key.Resource == s.policies {
			s.setPolicy(next, key, o)
			changed[key.Name] = true
			continue
		}
		if b, _ := next.bindings.Delete(key.Name); b != nil {
			next.boundTo(b.policy, own).Delete(b.name)
			changed[b.policy] = true
		}
		next.unreadable.Delete(key.String())
		if o == nil {
			continue
		}
		b, err := read(s, o, s.readBinding)
		if err != nil {
			next.unreadable.Set(key.String(), err)
			continue
		}
		next.bindings.Set(b.name, b)
		next.boundTo(b.policy, own).Set(b.name, b)
		changed[b.policy] = true
	}
	for name := range changed {
		next.activate(s.policies, name)
	}
	next.err = c.Err
	next.unreadable.Scan(func(_ string, err error) bool {
		next.err = err
		return false
	})
	return next
}

// setPolicy adds or replaces a policy; nil removes it.
func (s *source) setPolicy(next *set, key object.Key, o *object.Object) {
	if o == nil {
		next.stored.Delete(key.Name)
		return
	}
	last, _ := next.stored.Get(key.Name)
	p, err := read(s, o, func(obj resource.Tree) (storedPolicy, error) {
		var meta metav1.PartialObjectMetadata
		if err := codec.FromTree(resource.Tree{"metadata": obj["metadata"]}, &meta); err != nil {
			return storedPolicy{}, err
		}
		at := revision{meta.UID, meta.Generation}
		if last.policy != nil && last.revision == at {
			return last, nil
		}
		next.work.compiled++
		p, err := s.readPolicy(obj)
		return storedPolicy{revision: at, policy: p}, err
	})
	p.err = err
	next.stored.Set(key.Name, p)
}

// boundTo returns the bindings of a policy for modification while the set is built.
func (s *set) boundTo(policy string, own map[string]*btree.Map[string, *binding]) *btree.Map[string, *binding] {
	if bindings := own[policy]; bindings != nil {
		return bindings
	}
	bindings := &btree.Map[string, *binding]{}
	if last, _ := s.bound.Get(policy); last != nil {
		bindings = last.Copy()
	}
	s.bound.Set(policy, bindings)
	own[policy] = bindings
	return bindings
}

// activate adds a policy to the active ones if it is stored and bound, and removes it otherwise.
func (s *set) activate(resource schema.GroupResource, name string) {
	key := object.Key{Resource: resource, Name: name}.String()
	s.active.Delete(name)
	s.unreadable.Delete(key)
	bindings, _ := s.bound.Get(name)
	if bindings == nil || bindings.Len() == 0 {
		s.bound.Delete(name)
		return
	}
	switch p, ok := s.stored.Get(name); {
	case !ok:
	case p.err != nil:
		s.unreadable.Set(key, p.err)
	default:
		bound := *p.policy
		bound.bindings = bindings
		s.active.Set(name, &bound)
	}
}

// read decodes a stored object, and converts it with of.
func read[T any](s *source, o *object.Object, of func(resource.Tree) (T, error)) (none T, err error) {
	d := s.store.Registry().Load().Resource(o.Key.Resource)
	if d == nil {
		return none, fmt.Errorf("read %s: its kind is not served", o.Key)
	}
	obj, err := tree(d, o)
	if err != nil {
		return none, err
	}
	return of(obj)
}

func tree(d *resource.Definition, o *object.Object) (resource.Tree, error) {
	obj, err := resource.TreeOf(d, d.Storage, o)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	return obj, nil
}

// typed decodes a tree into its Go type.
func typed[T any](obj resource.Tree) (*T, error) {
	into := new(T)
	return into, codec.FromTree(obj, into)
}

func readValidating(obj resource.Tree) (*policy, error) {
	stored, err := typed[admissionv1.ValidatingAdmissionPolicy](obj)
	if err != nil {
		return nil, err
	}
	spec := &stored.Spec
	p := newPolicy(stored.Name, spec.ParamKind, spec.MatchConstraints, spec.FailurePolicy)
	p.expressions = sync.OnceValue(func() *expressions { return compileValidating(spec) })
	return p, nil
}

func readMutating(obj resource.Tree) (*policy, error) {
	stored, err := typed[admissionv1.MutatingAdmissionPolicy](obj)
	if err != nil {
		return nil, err
	}
	spec := &stored.Spec
	p := newPolicy(stored.Name, spec.ParamKind, spec.MatchConstraints, spec.FailurePolicy)
	p.again = spec.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy
	p.expressions = sync.OnceValue(func() *expressions { return compileMutating(spec) })
	return p, nil
}

func newPolicy(name string, params *admissionv1.ParamKind, constraints *admissionv1.MatchResources, failure *admissionv1.FailurePolicyType) *policy {
	if constraints == nil { // validation rejects this
		constraints = &admissionv1.MatchResources{}
	}
	return &policy{
		name: name, params: params, criteria: match.OfResources(constraints),
		ignores: failure != nil && *failure == admissionv1.Ignore,
	}
}

func readValidatingBinding(obj resource.Tree) (*binding, error) {
	stored, err := typed[admissionv1.ValidatingAdmissionPolicyBinding](obj)
	if err != nil {
		return nil, err
	}
	b := newBinding(stored.Name, stored.Spec.PolicyName, stored.Spec.ParamRef, stored.Spec.MatchResources)
	b.actions = stored.Spec.ValidationActions
	return b, nil
}

func readMutatingBinding(obj resource.Tree) (*binding, error) {
	stored, err := typed[admissionv1.MutatingAdmissionPolicyBinding](obj)
	if err != nil {
		return nil, err
	}
	return newBinding(stored.Name, stored.Spec.PolicyName, stored.Spec.ParamRef, stored.Spec.MatchResources), nil
}

func newBinding(name, policy string, params *admissionv1.ParamRef, resources *admissionv1.MatchResources) *binding {
	b := &binding{name: name, policy: policy, params: params}
	if resources != nil {
		b.criteria = match.OfResources(resources)
	}
	if params != nil && params.Selector != nil {
		b.selector, b.err = metav1.LabelSelectorAsSelector(params.Selector)
	}
	return b
}
