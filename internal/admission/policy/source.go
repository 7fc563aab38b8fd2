package policy

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/admission/match"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A policy is one that is bound, ready to be asked.
type policy struct {
	name     string
	params   *admissionv1.ParamKind // nil for none
	criteria *match.Criteria
	ignores  bool // failurePolicy is Ignore
	again    bool // reinvocationPolicy is IfNeeded
	// expressions compiles when first needed.
	expressions func() *expressions
	bindings    []*binding
}

// A binding is what makes a policy act.
type binding struct {
	name     string
	policy   string
	criteria *match.Criteria // nil for all that the policy matches
	params   *admissionv1.ParamRef
	selector labels.Selector // of params, if they are not named
	err      error           // of the selector
	actions  []admissionv1.ValidationAction
}

// source makes policies of what is stored.
type source struct {
	store              *resource.Store
	policies, bindings schema.GroupResource
	marks              [2]*state.Mark
	readPolicy         func(resource.Tree) (*policy, error)
	readBinding        func(resource.Tree) (*binding, error)

	current atomic.Pointer[set]
	mu      sync.Mutex // held while a set is made
}

// A set is the policies as they were stored when the marks were such. It does not change.
type set struct {
	marks    [2]uint64
	policies []*policy // in the order of names
	// known are those of policies by what they were read from, for the next set.
	known map[revision]*policy
	err   error // they cannot be read
}

// revision names the spec of a policy: each has a generation of its own.
type revision struct {
	uid        types.UID
	generation int64
}

func newSource(store *resource.Store, policies, bindings string, readPolicy func(resource.Tree) (*policy, error), readBinding func(resource.Tree) (*binding, error)) *source {
	s := &source{store: store, readPolicy: readPolicy, readBinding: readBinding}
	s.policies = schema.GroupResource{Group: admissionv1.GroupName, Resource: policies}
	s.bindings = schema.GroupResource{Group: admissionv1.GroupName, Resource: bindings}
	s.marks = [2]*state.Mark{store.State().Mark(s.policies), store.State().Mark(s.bindings)}
	return s
}

// none says that there is no policy that acts. It is cheap as long as policies do not change.
func (s *source) none() bool {
	set := s.load()
	return len(set.policies) == 0 && set.err == nil
}

// load returns the policies of now.
func (s *source) load() *set {
	marks := [2]uint64{s.marks[0].Load(), s.marks[1].Load()}
	if set := s.current.Load(); set != nil && set.marks == marks {
		return set
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	marks = [2]uint64{s.marks[0].Load(), s.marks[1].Load()}
	old := s.current.Load()
	if old != nil && old.marks == marks {
		return old
	}
	if old == nil {
		old = &set{}
	}
	set := s.read(old.known)
	set.marks = marks
	s.current.Store(set)
	return set
}

// read makes a set. Policies that are the same as before are not compiled again.
func (s *source) read(known map[revision]*policy) *set {
	made := &set{known: map[revision]*policy{}}
	bound := map[string][]*binding{}
	for obj, err := range s.trees(s.bindings) {
		if err != nil {
			return &set{err: err}
		}
		b, err := s.readBinding(obj)
		if err != nil {
			return &set{err: err}
		}
		bound[b.policy] = append(bound[b.policy], b)
	}
	if len(bound) == 0 {
		return made
	}
	for obj, err := range s.trees(s.policies) {
		if err != nil {
			return &set{err: err}
		}
		var meta metav1.PartialObjectMetadata
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(resource.Tree{"metadata": obj["metadata"]}, &meta); err != nil {
			return &set{err: err}
		}
		bindings := bound[meta.Name]
		if len(bindings) == 0 {
			continue
		}
		at := revision{meta.UID, meta.Generation}
		p := known[at]
		if p == nil {
			if p, err = s.readPolicy(obj); err != nil {
				return &set{err: err}
			}
		}
		made.known[at] = p
		withBindings := *p
		withBindings.bindings = bindings
		made.policies = append(made.policies, &withBindings)
	}
	return made
}

// trees yields what is stored of a resource, in the order of names.
func (s *source) trees(gr schema.GroupResource) func(yield func(resource.Tree, error) bool) {
	return func(yield func(resource.Tree, error) bool) {
		d := s.store.Registry().Load().Resource(gr)
		if d == nil {
			return
		}
		for o := range s.store.State().Snapshot(gr).All("") {
			obj, err := tree(d, o)
			if !yield(obj, err) {
				return
			}
		}
	}
}

func tree(d *resource.Definition, o *object.Object) (resource.Tree, error) {
	obj, err := resource.TreeOf(d, d.Storage, o)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	return obj, nil
}

// typed decodes what is stored into its Go type.
func typed[T any](obj resource.Tree) (*T, error) {
	into := new(T)
	return into, runtime.DefaultUnstructuredConverter.FromUnstructured(obj, into)
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
	if constraints == nil { // which is refused when it is written
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
