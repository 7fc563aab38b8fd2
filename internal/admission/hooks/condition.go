package hooks

import (
	"context"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/match"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
)

// conditions are the matchConditions of a webhook. They are compiled on first use.
type conditions struct {
	expressions []plugincel.ExpressionAccessor
	compile     func() plugincel.ConditionEvaluator
}

// newConditions returns nil if all is empty.
func newConditions(all []admissionv1.MatchCondition) *conditions {
	if len(all) == 0 {
		return nil
	}
	c := &conditions{}
	for _, one := range all {
		c.expressions = append(c.expressions, condition(one))
	}
	c.compile = sync.OnceValue(func() plugincel.ConditionEvaluator {
		return compiler().CompileCondition(c.expressions, plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	})
	return c
}

// compiler is shared by all conditions, because creating one costs more than a compilation.
var compiler = sync.OnceValue(func() plugincel.ConditionCompiler {
	return plugincel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// condition implements the compiler's view of a condition.
type condition admissionv1.MatchCondition

func (c condition) GetExpression() string    { return c.Expression }
func (c condition) ReturnTypes() []*cel.Type { return []*cel.Type{cel.BoolType} }

// meets reports whether a request that matches a webhook's rules also meets its conditions. One
// condition that is false decides. If one cannot be evaluated, and none is false, the webhook is
// skipped if its failurePolicy is Ignore, and otherwise this is an error.
func (q *question) meets(ctx context.Context, h *hook, s *shown) (bool, error) {
	started := time.Now()
	results, err := q.evaluate(ctx, h, s)
	q.hooks.metrics.evaluated(h, q.kind, q.Operation, time.Since(started))
	if err != nil {
		return false, failing(h, err)
	}
	var errs []error
	for _, r := range results {
		if r.Error != nil {
			errs = append(errs, r.Error)
			q.hooks.metrics.evaluationFailed(h, q.kind, q.Operation)
		}
		if r.EvalResult == types.False {
			return false, nil
		}
	}
	if len(errs) > 0 {
		return false, failing(h, utilerrors.NewAggregate(errs))
	}
	return true, nil
}

func failing(h *hook, err error) error {
	if h.ignored() {
		return nil
	}
	return err
}

func (q *question) evaluate(ctx context.Context, h *hook, s *shown) ([]plugincel.EvaluationResult, error) {
	own := match.As{Resource: q.Request.Definition.GroupVersion(q.Request.Version).WithResource(q.Request.Definition.Plural), Kind: q.Kind}
	attributes := admission.NewAttributesRecord(wrap(s.object), wrap(s.old), own.Kind, match.Namespace(q.Admitted), q.Name, own.Resource,
		q.Request.Subresource, admission.Operation(q.Operation), q.Options, q.Request.DryRun, q.Request.User)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: s.Kind}
	versioned.VersionedObject.Set(wrap(s.object))
	versioned.VersionedOldObject.Set(wrap(s.old))
	// As in Kubernetes, conditions see the resource of the request, even if the webhook gets
	// another version.
	request := plugincel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(own.Resource), metav1.GroupVersionKind(s.Kind))
	results, _, err := h.conditions.compile().ForInput(ctx, versioned, request,
		plugincel.OptionalVariableBindings{Authorizer: asked{q.hooks.Authorizer}}, nil, celconfig.RuntimeCELCostBudgetMatchConditions)
	return results, err
}

// wrap returns a tree as an object; nil for nil.
func wrap(obj map[string]any) runtime.Object {
	if obj == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: obj}
}

// asked adapts an authorizer to Kubernetes' CEL library.
type asked struct{ authz.Authorizer }

func (a asked) Authorize(ctx context.Context, about authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.Authorizer == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	attributes := &authz.Attributes{
		Verb: about.GetVerb(), Path: about.GetPath(), ResourceRequest: about.IsResourceRequest(),
		APIGroup: about.GetAPIGroup(), APIVersion: about.GetAPIVersion(), Resource: about.GetResource(), Subresource: about.GetSubresource(),
		Namespace: about.GetNamespace(), Name: about.GetName(),
	}
	if u := about.GetUser(); u != nil {
		attributes.User = &authn.User{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
	}
	d, reason, err := a.Authorizer.Authorize(ctx, attributes)
	switch d {
	case authz.Allow:
		return authorizer.DecisionAllow, reason, err
	case authz.Deny:
		return authorizer.DecisionDeny, reason, err
	}
	return authorizer.DecisionNoOpinion, reason, err
}
