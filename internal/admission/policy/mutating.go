package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/match"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Mutating applies MutatingAdmissionPolicies. It implements admission.Mutator.
type Mutating struct{ *Policies }

// Mutating returns the plugin for MutatingAdmissionPolicies.
func (p *Policies) Mutating() Mutating { return Mutating{p} }

// Handles implements admission.Plugin. A delete has no object to change.
func (p Mutating) Handles(r *resource.Request, op resource.Operation) bool {
	return op != resource.OperationDelete && p.mutating.handles(r.Definition.GroupResource())
}

// Mutate implements admission.Mutator.
func (p Mutating) Mutate(ctx context.Context, a *resource.Admitted) error {
	policies, err := p.mutating.of(a.Request.Definition.GroupResource())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	m := &mutator{subject: p.subject(a)}
	for one := range policies {
		m.match(ctx, one)
	}
	if len(m.uses) > 0 {
		if err := m.mutate(ctx); err != nil {
			return err
		}
	}
	return m.end()
}

// A mutator applies the mutating policies to a request.
type mutator struct {
	*subject
	uses    []use
	touched bool // an object has replaced the one in the request
	errors  []policyError
}

// A use is the evaluation of a policy with one parameter of one binding.
type use struct {
	policy  *policy
	binding *binding
	as      match.As
	param   param
}

// key identifies a use in both passes.
func (u *use) key() useKey {
	return useKey{u.policy.name, u.binding.name, u.param.namespace, u.param.name}
}

type useKey struct{ policy, binding, namespace, name string }

// A policyError is a reason to reject a request.
type policyError struct {
	policy  *policy
	binding *binding // nil for an error of the policy itself
	err     error
	reason  metav1.StatusReason // "" for the default
}

func (e policyError) Error() string {
	if e.binding != nil {
		return fmt.Sprintf("policy '%s' with binding '%s' denied request: %v", e.policy.name, e.binding.name, e.err)
	}
	return fmt.Sprintf("policy %q denied request: %v", e.policy.name, e.err)
}

func (m *mutator) misconfigured(p *policy, b *binding, err error) {
	what := "policy"
	if b != nil {
		what = "binding"
	}
	m.errors = append(m.errors, policyError{p, b, fmt.Errorf("failed to configure %s: %w", what, err), ""})
}

// match determines the uses of a policy. It matches the object as it is before any policy changes
// it.
func (m *mutator) match(ctx context.Context, p *policy) {
	as, matches, err := p.criteria.Match(m.store.State(), m.Admitted)
	if err != nil {
		m.misconfigured(p, nil, err)
		return
	}
	if !matches {
		return
	}
	kind, err := m.paramKind(p.params)
	if err != nil {
		m.misconfigured(p, nil, err)
		return
	}
	for b := range p.all() {
		if matches, err := b.matches(m.subject); err != nil {
			m.misconfigured(p, b, err)
			continue
		} else if !matches {
			continue
		}
		if _, err := m.show(ctx, as); err != nil {
			m.misconfigured(p, nil, err)
			continue
		}
		params, err := m.collect(ctx, kind, b, m.Namespace())
		if err != nil {
			m.misconfigured(p, b, err)
			continue
		}
		for i := range params {
			m.uses = append(m.uses, use{p, b, as, params[i]})
		}
	}
}

// mutate applies the policies one after another. An error rejects the request, whatever the
// failurePolicies.
func (m *mutator) mutate(ctx context.Context) error {
	passes := m.passes()
	if m.Passes.Second && !object.Equal(passes.left, m.Object) {
		passes.changed() // marks those that are applied again in any case
	}
	defer func() { passes.leave(m.Object) }()
	if err := m.findNamespace(); err != nil {
		return err
	}
	for i := range m.uses {
		u := &m.uses[i]
		x := u.policy.expressions()
		about, err := m.show(ctx, u.as)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		wanted, err := x.conditionsHold(ctx, u.policy, about, u.param.value)
		if err != nil {
			m.errors = append(m.errors, policyError{u.policy, u.binding, err, metav1.StatusReasonInvalid})
			continue
		}
		if !wanted || m.Passes.Second && !passes.again[u.key()] {
			continue
		}
		before := m.Object
		if err := m.use(ctx, u, x); err != nil {
			return err
		}
		if !object.Equal(before, m.Object) {
			passes.changed()
		}
		if u.policy.again {
			passes.used[u.key()] = true
		}
	}
	if err := m.settle(ctx); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
	}
	if m.touched { // even if the object is equal
		passes.changed()
		m.Passes.Again = true
	}
	return nil
}

// use applies the mutations of a policy.
func (m *mutator) use(ctx context.Context, u *use, x *expressions) error {
	for i := range x.mutations {
		if m.Object == nil {
			return nil
		}
		begun := time.Now()
		err := m.change(ctx, u, x, &x.mutations[i])
		m.metrics.mutated(u, time.Since(begun), err)
		if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
			return status
		}
		if err != nil {
			m.errors = append(m.errors, policyError{u.policy, u.binding, err, metav1.StatusReasonInvalid})
		}
	}
	return nil
}

// change applies one mutation.
func (m *mutator) change(ctx context.Context, u *use, x *expressions, p *mutationProgram) error {
	if p.err != nil {
		return p.err
	}
	about, err := m.show(ctx, u.as)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	v, err, end := newEvaluation(ctx, x, about, u.param.value, celconfig.RuntimeCELCostBudget).run(&p.program)
	if end != nil {
		return end
	}
	if err != nil {
		return err
	}
	obj, err := about.patched(ctx, p.kind, v)
	if err != nil {
		return err
	}
	m.Object, m.form, m.touched = obj, u.as.Version, true
	m.forget()
	return nil
}

// show returns the request in the version of a rule. Changes in another version are converted
// first.
func (m *mutator) show(ctx context.Context, as match.As) (*shown, error) {
	if m.form != nil && m.form != as.Version {
		if err := m.settle(ctx); err != nil {
			return nil, err
		}
	}
	return m.subject.show(ctx, as)
}

// settle converts the changes to the version of the request.
func (m *mutator) settle(ctx context.Context) error {
	if m.form == nil {
		return nil
	}
	obj, err := m.Restore(ctx, m.Object)
	if err != nil {
		return err
	}
	m.Object, m.form = obj, nil
	m.forget()
	return nil
}

// end returns the rejection of the request, nil if there is no reason for one.
func (m *mutator) end() error {
	var refusal *apierrors.StatusError
	for _, e := range m.errors {
		if e.policy.ignores {
			continue
		}
		message := e.Error()
		if refusal == nil {
			refusal = m.forbidden("admission request denied by policy")
			refusal.ErrStatus.Message = message
			if e.reason != "" {
				refusal.ErrStatus.Reason = e.reason
			}
		}
		refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{Message: message})
	}
	if refusal == nil {
		return nil
	}
	return refusal
}

// passes is the state of mutating policies between the passes over an object.
type passes struct {
	left  resource.Tree   // the object at the end of the pass
	used  map[useKey]bool // uses to repeat if the object changes
	again map[useKey]bool // uses to repeat in the second pass
}

type passesKey struct{}

func (m *mutator) passes() *passes {
	if known, ok := m.Passes.Note(passesKey{}).(*passes); ok {
		return known
	}
	p := &passes{used: map[useKey]bool{}, again: map[useKey]bool{}}
	m.Passes.SetNote(passesKey{}, p)
	return p
}

// leave stores the object for the next pass.
func (p *passes) leave(obj resource.Tree) {
	if len(p.used)+len(p.again) > 0 {
		p.left = runtime.DeepCopyJSON(obj)
	}
}

// changed marks the uses so far to be repeated, because the object changed after them.
func (p *passes) changed() {
	for key := range p.used {
		p.again[key] = true
	}
	clear(p.used)
}
