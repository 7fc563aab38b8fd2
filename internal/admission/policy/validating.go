package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Validating enforces ValidatingAdmissionPolicies. It implements admission.Validator.
type Validating struct{ *Policies }

// Validating returns the plugin for ValidatingAdmissionPolicies.
func (p *Policies) Validating() Validating { return Validating{p} }

// Handles implements admission.Plugin.
func (p Validating) Handles(r *resource.Request, _ resource.Operation) bool {
	return p.validating.handles(r.Definition.GroupResource())
}

// Validate implements admission.Validator.
func (p Validating) Validate(ctx context.Context, a *resource.Admitted) error {
	policies, err := p.validating.of(a.Request.Definition.GroupResource())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	v := &verdict{subject: p.subject(a)}
	for one := range policies {
		if err := v.ask(ctx, one); err != nil {
			return err
		}
	}
	return v.end()
}

// A verdict collects the results of validating policies.
type verdict struct {
	*subject
	refusals []refusal
	failures []failure // for the audit event
}

// A refusal is one reason to reject a request.
type refusal struct {
	by      *policy
	binding *binding // nil for an error of the policy itself
	decision
}

// A decision is the failure of one expression.
type decision struct {
	message string
	reason  metav1.StatusReason // "" for Invalid
	took    time.Duration
	ignored bool // because the failurePolicy is Ignore
}

// A failure is a failed validation in the form of the audit annotation.
type failure struct {
	Message           string                         `json:"message"`
	Policy            string                         `json:"policy"`
	Binding           string                         `json:"binding"`
	ExpressionIndex   int                            `json:"expressionIndex"`
	ValidationActions []admissionv1.ValidationAction `json:"validationActions"`
}

// misconfigured adds an error of configuration, unless the failurePolicy is Ignore.
func (v *verdict) misconfigured(p *policy, b *binding, err error) {
	if p.ignores {
		return
	}
	what := "policy"
	if b != nil {
		what = "binding"
	}
	v.refusals = append(v.refusals, refusal{p, b, decision{message: fmt.Sprintf("failed to configure %s: %v", what, err)}})
}

// ask evaluates a policy. An error rejects the request at once.
func (v *verdict) ask(ctx context.Context, p *policy) error {
	as, matches, err := p.criteria.Match(v.store.State(), v.Admitted)
	if err != nil {
		v.misconfigured(p, nil, err)
		return nil
	}
	if !matches {
		return nil
	}
	kind, err := v.paramKind(p.params)
	if err != nil {
		v.misconfigured(p, nil, err)
		return nil
	}
	var notes notes
	for b := range p.all() {
		if matches, err := b.matches(v.subject); err != nil {
			v.misconfigured(p, b, err)
			continue
		} else if !matches {
			continue
		}
		params, err := v.collect(ctx, kind, b, v.Namespace())
		if err != nil {
			v.misconfigured(p, b, err)
			continue
		}
		if len(params) == 0 {
			continue
		}
		about, err := v.show(ctx, as)
		if err != nil {
			v.misconfigured(p, b, fmt.Errorf("failed to convert object version: %w", err))
			continue
		}
		if err := v.findNamespace(); err != nil {
			return err
		}
		for i := range params {
			v.evaluate(ctx, p, b, about, params[i].value, &notes)
		}
	}
	notes.publish(p.name, v.Request.Annotate)
	return nil
}

// matches reports whether a binding matches a request that its policy matches.
func (b *binding) matches(s *subject) (bool, error) {
	if b.criteria == nil {
		return true, nil
	}
	_, ok, err := b.criteria.Match(s.store.State(), s.Admitted)
	return ok, err
}

// evaluate evaluates a policy with one parameter.
func (v *verdict) evaluate(ctx context.Context, p *policy, b *binding, about *shown, params any, notes *notes) {
	x := p.expressions()
	wanted, err := x.conditionsHold(ctx, p, about, params)
	if err != nil {
		v.decide(p, b, 0, decision{message: err.Error()})
	}
	if !wanted {
		return
	}
	decisions, err := x.validate(newEvaluation(ctx, x, about, params, celconfig.RuntimeCELCostBudget), p.ignores)
	var annotations []annotated
	if err == nil {
		annotations, err = x.annotate(newEvaluation(ctx, x, about, params, celconfig.RuntimeCELCostBudget), p.ignores)
	}
	if err != nil {
		v.decide(p, b, 0, decision{message: err.Error(), ignored: p.ignores})
		return
	}
	for i, d := range decisions {
		if d != nil {
			v.decide(p, b, i, *d)
		}
	}
	for _, a := range annotations {
		if a.err != nil {
			v.refusals = append(v.refusals, refusal{p, b, decision{message: a.err.Error()}})
			v.metrics.failed(p, b, a.took, a.err.Error(), "deny")
			continue
		}
		notes.add(a.key, a.value)
	}
}

// decide applies the validationActions of a binding to a failure that is not ignored.
func (v *verdict) decide(p *policy, b *binding, expression int, d decision) {
	if d.ignored {
		v.metrics.failed(p, b, d.took, d.message, "allow")
		return
	}
	for _, action := range b.actions {
		v.metrics.failed(p, b, d.took, d.message, strings.ToLower(string(action)))
		switch action {
		case admissionv1.Deny:
			v.refusals = append(v.refusals, refusal{p, b, d})
		case admissionv1.Audit:
			v.failures = append(v.failures, failure{
				Message: d.message, Policy: b.policy, Binding: b.name, ExpressionIndex: expression, ValidationActions: b.actions,
			})
		case admissionv1.Warn:
			v.Request.Warn(fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", p.name, b.name, d.message))
		}
	}
}

// validate evaluates the validations of a policy and returns a decision for each, nil if it holds.
// It returns an error if the evaluation could not be completed. With ignores, the decision on a
// validation that cannot be evaluated is ignored.
func (x *expressions) validate(e *evaluation, ignores bool) ([]*decision, error) {
	decisions := make([]*decision, len(x.validations))
	failed := false
	for i := range x.validations {
		begun := time.Now()
		v, err, end := e.run(&x.validations[i].program)
		took := time.Since(begun)
		switch {
		case end != nil:
			return nil, end
		case err != nil:
			decisions[i] = &decision{message: err.Error(), took: took, ignored: ignores}
		case v != types.True:
			decisions[i], failed = &decision{reason: metav1.StatusReasonInvalid, took: took}, true
			if reason := x.validations[i].Reason; reason != nil {
				decisions[i].reason = *reason
			}
		}
	}
	if failed {
		x.explain(newEvaluation(e.ctx, x, e.about, e.params, e.budget), decisions, ignores)
	}
	return decisions, nil
}

// explain sets the messages of decisions that have none.
func (x *expressions) explain(e *evaluation, decisions []*decision, ignores bool) {
	messages := make([]string, len(decisions))
	var end error
	for i := range x.validations {
		if x.validations[i].message == nil {
			continue
		}
		v, err, spent := e.run(x.validations[i].message)
		if end = spent; end != nil {
			break
		}
		if text, ok := v.(types.String); ok && err == nil {
			messages[i] = presentable(string(text))
		}
	}
	for i, d := range decisions {
		switch v := &x.validations[i]; {
		case end != nil && fatal(end) && (d == nil || d.message == ""):
			// As in Kubernetes, even if the validation holds.
			decisions[i] = &decision{message: fmt.Sprintf("failed messageExpression: %s", end), ignored: ignores}
		case d == nil || d.message != "":
		case end == nil && messages[i] != "":
			d.message = messages[i]
		case strings.TrimSpace(v.Message) != "":
			d.message = strings.TrimSpace(v.Message)
		default:
			d.message = fmt.Sprintf("failed expression: %v", strings.TrimSpace(v.Expression))
		}
	}
}

// presentable returns the message of an expression; "" if it is not suitable for display.
func presentable(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(text, "\n") {
		return ""
	}
	return text
}

// annotated is the result of one audit annotation.
type annotated struct {
	key, value string
	err        error // instead of a value
	took       time.Duration
}

// annotate evaluates the audit annotations of a policy.
func (x *expressions) annotate(e *evaluation, ignores bool) (all []annotated, end error) {
	for i := range x.annotations {
		a := &x.annotations[i]
		begun := time.Now()
		v, err, end := e.run(&a.program)
		took := time.Since(begun)
		if end != nil {
			return nil, end
		}
		if err != nil {
			if !ignores {
				all = append(all, annotated{err: err, took: took})
			}
			continue
		}
		switch v := v.(type) {
		case types.String:
			if text := strings.TrimSpace(string(v)); text != "" {
				all = append(all, annotated{key: a.key, value: text})
			}
		case types.Null:
		default:
			const rule = "Return type must be either string or null."
			all = append(all, annotated{err: fmt.Errorf("valueExpression '%v' resulted in unsupported return type: %v. %s", a.text, v.Type(), rule), took: took})
		}
	}
	return all, nil
}

// end returns the rejection of the request, nil if there is no reason for one.
func (v *verdict) end() error {
	v.audit()
	if len(v.refusals) == 0 {
		return nil
	}
	first := v.refusals[0]
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", first.by.name, first.message)
	if first.binding != nil {
		message = fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", first.by.name, first.binding.name, first.message)
	}
	err := v.forbidden(message)
	if err.ErrStatus.Reason = first.reason; first.reason == "" {
		err.ErrStatus.Reason = metav1.StatusReasonInvalid
	}
	err.ErrStatus.Code = codeOf(err.ErrStatus.Reason)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: message})
	return err
}

func codeOf(reason metav1.StatusReason) int32 {
	switch reason {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}

// forbidden returns a rejection in the words of Kubernetes' admission.
func (s *subject) forbidden(message string) *apierrors.StatusError {
	name := s.Name
	if name == "" {
		metadata, _ := s.Object["metadata"].(map[string]any)
		if name, _ = metadata["generateName"].(string); name == "" {
			name = "Unknown"
		}
	}
	return apierrors.NewForbidden(s.Request.GroupResource(), name, errors.New(message))
}

// audit adds the failures to the audit event.
func (v *verdict) audit() {
	const most = 50
	if len(v.failures) == 0 || v.Request.Annotate == nil {
		return
	}
	text, err := json.Marshal(v.failures[:min(len(v.failures), most)])
	if err == nil { // cannot fail: it has strings and numbers only
		v.Request.Annotate("validation.policy.admission.k8s.io/validation_failure", string(text))
	}
}

// notes collects the audit annotations of a policy from the evaluations for its bindings.
type notes struct {
	keys   []string
	values map[string][]string
}

func (n *notes) add(key, value string) {
	const longest = 10 << 10
	value = value[:min(len(value), longest)]
	if n.values == nil {
		n.values = map[string][]string{}
	}
	if n.values[key] == nil {
		n.keys = append(n.keys, key)
	}
	if !slices.Contains(n.values[key], value) {
		n.values[key] = append(n.values[key], value)
	}
}

// publish adds the annotations to the audit event of the request, if there is one.
func (n *notes) publish(policy string, annotate func(key, value string)) {
	if annotate == nil {
		return
	}
	for _, key := range n.keys {
		annotate(policy+"/"+key, strings.Join(n.values[key], ", "))
	}
}
