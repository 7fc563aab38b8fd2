package access

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/users"
	"github.com/kapok-dev/kapok/internal/resource"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Authorization returns the reviews of group authorization.k8s.io, which are not stored. Creating
// them is authorized like that of any other resource.
func Authorization() []kind.Row {
	return []kind.Row{
		review("subjectaccessreviews", false, validateSubjectAccessReview, func(_ *authn.User, review *authorizationv1.SubjectAccessReview) authz.Attributes {
			return attributesOf(&review.Spec)
		}),
		review("localsubjectaccessreviews", true, validateLocalSubjectAccessReview, func(_ *authn.User, review *authorizationv1.LocalSubjectAccessReview) authz.Attributes {
			return attributesOf(&review.Spec)
		}),
		review("selfsubjectaccessreviews", false, validateSelfSubjectAccessReview, func(u *authn.User, review *authorizationv1.SelfSubjectAccessReview) authz.Attributes {
			return attributes(u, review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
		}),
		rulesReview(),
	}
}

// reviewed returns the row of a resource that is not stored: create returns the review with its
// answer.
func reviewed(plural, kindName string, namespaced bool, a *resource.Action) kind.Row {
	a.Managed = true
	return kind.Row{Fixed: &resource.Definition{
		Group: a.Kind.Group, Plural: plural, Singular: strings.ToLower(kindName), Kind: kindName, ListKind: kindName + "List", Namespaced: namespaced,
		Versions: []*resource.Version{{Name: a.Kind.Version, Model: a.Model}},
		Action:   a,
	}}
}

// review returns the row of a review whether a user may do something.
func review[P runtime.Object](plural string, namespaced bool, validate func(P) field.ErrorList, about func(sender *authn.User, review P) authz.Attributes) kind.Row {
	var a *resource.Action
	kindName := kind.Kind[P]{}.Name()
	gvk := authorizationv1.SchemeGroupVersion.WithKind(kindName)
	a = &resource.Action{
		Kind: gvk, Model: kind.NewModel[P](gvk, nil, nil, gvk),
		Do: func(ctx context.Context, _ *resource.Store, r *resource.Request, body resource.Tree) (resource.Result, error) {
			review := kind.New[P]() // with managed fields, which error messages show
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(body, review); err != nil {
				return resource.Result{}, apierrors.NewInternalError(err)
			}
			if problems := validate(review); len(problems) > 0 {
				// Kubernetes' message has no kind here.
				return resource.Result{}, causes.Invalid(schema.GroupKind{Group: gvk.Group}, "", problems)
			}
			if r.User == nil {
				return resource.Result{}, apierrors.NewBadRequest("no user present on request")
			}
			asked := about(authn.Of(r.User), review)
			body["status"] = decide(ctx, users.Of(r).Authorizer, &asked, body)
			return resource.Result{Tree: body}, nil
		},
	}
	return reviewed(plural, kindName, namespaced, a)
}

// decide returns the status of a review.
func decide(ctx context.Context, by authz.Authorizer, asked *authz.Attributes, body resource.Tree) resource.Tree {
	problems := readSelectors(asked, body)
	status := resource.Tree{"allowed": true}
	if by != nil {
		d, reason, err := by.Authorize(ctx, asked)
		status["allowed"] = d == authz.Allow
		if d == authz.Deny {
			status["denied"] = true
		}
		if reason != "" {
			status["reason"] = reason
		}
		if err != nil {
			problems = append([]string{err.Error()}, problems...)
		}
	}
	if len(problems) > 0 {
		status["evaluationError"] = strings.Join(problems, "; ")
	}
	return status
}

func attributesOf(spec *authorizationv1.SubjectAccessReviewSpec) authz.Attributes {
	u := &authn.User{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	for key, values := range spec.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = values
	}
	return attributes(u, spec.ResourceAttributes, spec.NonResourceAttributes)
}

// attributes returns the subject of a review; either resource or path is nil.
func attributes(u *authn.User, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) authz.Attributes {
	if resource == nil {
		return authz.Attributes{User: u, Verb: path.Verb, Path: path.Path}
	}
	version := resource.Version
	if version == "" {
		version = "*"
	}
	return authz.Attributes{
		User: u, Verb: resource.Verb, ResourceRequest: true,
		APIGroup: resource.Group, APIVersion: version, Resource: resource.Resource, Subresource: resource.Subresource,
		Namespace: resource.Namespace, Name: resource.Name,
	}
}

// readSelectors adds a review's selectors to the attributes, and returns the errors of requirements
// that it cannot read. It leaves those out, which asks for more and so never allows too much.
func readSelectors(asked *authz.Attributes, body resource.Tree) (problems []string) {
	attributes, _ := kind.Get(body, "spec", "resourceAttributes").(resource.Tree)
	if attributes == nil {
		return nil
	}
	in := kind.Decoded[authorizationv1.ResourceAttributes](attributes)
	ignored := func(selector string, some int, err error) {
		if err != nil {
			how := "ignored"
			if some > 0 {
				how = "partially ignored"
			}
			problems = append(problems, fmt.Sprintf("spec.resourceAttributes.%s %s due to parse error", selector, how))
		}
	}
	if s := in.FieldSelector; s != nil {
		var err error
		asked.Fields, err = fieldRequirements(s)
		ignored("fieldSelector", len(asked.Fields), err)
	}
	if s := in.LabelSelector; s != nil {
		var err error
		asked.Labels, err = labelRequirements(s)
		ignored("labelSelector", len(asked.Labels), err)
	}
	return problems
}

func fieldRequirements(s *authorizationv1.FieldSelectorAttributes) (all fields.Requirements, err error) {
	if s.RawSelector != "" {
		selector, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return nil, err
		}
		return selector.Requirements(), nil
	}
	operators := map[metav1.FieldSelectorOperator]selection.Operator{
		metav1.FieldSelectorOpIn: selection.Equals, metav1.FieldSelectorOpNotIn: selection.NotEquals,
	}
	for _, r := range s.Requirements {
		operator, ok := operators[r.Operator]
		if !ok || len(r.Values) != 1 {
			err = errors.New("requirements of field selectors must have the operator In or NotIn and exactly one value")
			continue
		}
		all = append(all, fields.Requirement{Field: r.Key, Operator: operator, Value: r.Values[0]})
	}
	return all, err
}

func labelRequirements(s *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if s.RawSelector != "" {
		selector, err := labels.Parse(s.RawSelector)
		if err != nil {
			return nil, err
		}
		all, _ := selector.Requirements()
		return all, nil
	}
	operators := map[metav1.LabelSelectorOperator]selection.Operator{
		metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
		metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	var all labels.Requirements
	var errs []error
	for _, r := range s.Requirements {
		requirement, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, *requirement)
	}
	return all, causes.Errors(errs)
}

// rulesReview returns the row of SelfSubjectRulesReview: the rules of the user in a namespace.
func rulesReview() kind.Row {
	const kindName = "SelfSubjectRulesReview"
	gvk := authorizationv1.SchemeGroupVersion.WithKind(kindName)
	model := kind.NewModel[*authorizationv1.SelfSubjectRulesReview](gvk, nil, nil, gvk)
	return reviewed("selfsubjectrulesreviews", kindName, false, &resource.Action{
		Kind: gvk, Model: model,
		Do: func(ctx context.Context, _ *resource.Store, r *resource.Request, body resource.Tree) (resource.Result, error) {
			namespace := kind.Text(body, "spec", "namespace")
			switch {
			case r.User == nil:
				return resource.Result{}, apierrors.NewBadRequest("no user present on request")
			case namespace == "":
				return resource.Result{}, apierrors.NewBadRequest("no namespace on request")
			}
			review := &authorizationv1.SelfSubjectRulesReview{Status: rulesOf(ctx, users.Of(r).Authorizer, authn.Of(r.User), namespace)}
			tree, err := model.Tree(review)
			if err != nil {
				return resource.Result{}, apierrors.NewInternalError(err)
			}
			return resource.Result{Tree: tree}, nil
		},
	})
}

func rulesOf(ctx context.Context, by authz.Authorizer, u *authn.User, namespace string) authorizationv1.SubjectRulesReviewStatus {
	status := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
	}
	resolver, ok := by.(authz.RuleResolver)
	if !ok {
		status.Incomplete = true
		return status
	}
	rules, incomplete, err := resolver.RulesFor(ctx, u, namespace)
	for _, rule := range rules {
		if len(rule.Resources) > 0 {
			status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{
				Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs,
			})
		}
	}
	if status.Incomplete = incomplete; err != nil {
		status.EvaluationError = err.Error()
	}
	return status
}
