package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// authorization is the group of questions about access: nothing of it is kept. Who may ask is decided as for every
// other resource.
func authorization() []row {
	return []row{
		review("subjectaccessreviews", false, validation.SubjectAccessReview, func(_ *auth.User, review *authorizationv1.SubjectAccessReview) auth.Attributes {
			return attributesOf(&review.Spec)
		}),
		review("localsubjectaccessreviews", true, validation.LocalSubjectAccessReview, func(_ *auth.User, review *authorizationv1.LocalSubjectAccessReview) auth.Attributes {
			return attributesOf(&review.Spec)
		}),
		review("selfsubjectaccessreviews", false, validation.SelfSubjectAccessReview, func(u *auth.User, review *authorizationv1.SelfSubjectAccessReview) auth.Attributes {
			return attributes(u, review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
		}),
		rulesReview(),
	}
}

// reviewed is the row of a resource of which nothing is kept: what is created is answered, and shown with the answer.
func reviewed(plural, kind string, namespaced bool, a *resource.Action) row {
	a.Managed = true
	return row{Definition: &resource.Definition{
		Group: a.Kind.Group, Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List", Namespaced: namespaced,
		Versions: []*resource.Version{{Name: a.Kind.Version, Model: a.Model}},
		Action:   a,
	}}
}

// review is a question whether somebody may do something.
func review[T any](plural string, namespaced bool, validate func(*T) field.ErrorList, about func(sender *auth.User, review *T) auth.Attributes) row {
	var a *resource.Action
	kind := kind[T]{}.name()
	gvk := authorizationv1.SchemeGroupVersion.WithKind(kind)
	a = &resource.Action{
		Kind: gvk, Model: newModel[T](gvk, nil, nil, nil, gvk),
		Do: func(ctx context.Context, s *resource.Store, r *resource.Request, body resource.Tree) (resource.Result, error) {
			review := new(T) // with managed fields, which messages show
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(body, review); err != nil {
				return resource.Result{}, apierrors.NewInternalError(err)
			}
			if problems := validate(review); len(problems) > 0 {
				// Kubernetes has forgotten the kind by now.
				return resource.Result{}, apierrors.NewInvalid(schema.GroupKind{Group: gvk.Group}, "", problems)
			}
			if r.User == nil {
				return resource.Result{}, apierrors.NewBadRequest("no user present on request")
			}
			asked := about(r.User, review)
			body["status"] = decide(ctx, s, &asked, body)
			return resource.Result{Tree: body}, nil
		},
	}
	return reviewed(plural, kind, namespaced, a)
}

// decide is the status of a review.
func decide(ctx context.Context, s *resource.Store, asked *auth.Attributes, body resource.Tree) resource.Tree {
	problems := readSelectors(asked, body)
	status := resource.Tree{"allowed": true}
	if by := s.Gate().Authorizer; by != nil {
		d, reason, err := by.Authorize(ctx, asked)
		status["allowed"] = d == auth.Allow
		if d == auth.Deny {
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

func attributesOf(spec *authorizationv1.SubjectAccessReviewSpec) auth.Attributes {
	u := &auth.User{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	for key, values := range spec.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = values
	}
	return attributes(u, spec.ResourceAttributes, spec.NonResourceAttributes)
}

// attributes are what a review asks about; one of resource and path is nil.
func attributes(u *auth.User, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) auth.Attributes {
	if resource == nil {
		return auth.Attributes{User: u, Verb: path.Verb, Path: path.Path}
	}
	version := resource.Version
	if version == "" {
		version = "*"
	}
	return auth.Attributes{
		User: u, Verb: resource.Verb, ResourceRequest: true,
		APIGroup: resource.Group, APIVersion: version, Resource: resource.Resource, Subresource: resource.Subresource,
		Namespace: resource.Namespace, Name: resource.Name,
	}
}

// readSelectors adds the selectors of a review to what is asked, and says what of them could not be read. Leaving out a
// requirement asks for more, and so gives nothing away.
func readSelectors(asked *auth.Attributes, body resource.Tree) (problems []string) {
	attributes, _ := get(body, "spec", "resourceAttributes").(resource.Tree)
	if attributes == nil {
		return nil
	}
	in := decoded[authorizationv1.ResourceAttributes](attributes)
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
			err = errors.New("a requirement of fields has one value, and is In or NotIn")
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
	return all, utilerrors.NewAggregate(errs)
}

// rulesReview is the question what the sender may do in a namespace.
func rulesReview() row {
	const kind = "SelfSubjectRulesReview"
	gvk := authorizationv1.SchemeGroupVersion.WithKind(kind)
	model := newModel[authorizationv1.SelfSubjectRulesReview](gvk, nil, nil, nil, gvk)
	return reviewed("selfsubjectrulesreviews", kind, false, &resource.Action{
		Kind: gvk, Model: model,
		Do: func(ctx context.Context, s *resource.Store, r *resource.Request, body resource.Tree) (resource.Result, error) {
			namespace := text(body, "spec", "namespace")
			switch {
			case r.User == nil:
				return resource.Result{}, apierrors.NewBadRequest("no user present on request")
			case namespace == "":
				return resource.Result{}, apierrors.NewBadRequest("no namespace on request")
			}
			review := &authorizationv1.SelfSubjectRulesReview{Status: rulesOf(ctx, s, r.User, namespace)}
			tree, err := model.tree(review)
			if err != nil {
				return resource.Result{}, apierrors.NewInternalError(err)
			}
			return resource.Result{Tree: tree}, nil
		},
	})
}

func rulesOf(ctx context.Context, s *resource.Store, u *auth.User, namespace string) authorizationv1.SubjectRulesReviewStatus {
	status := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
	}
	resolver, ok := s.Gate().Authorizer.(auth.RuleResolver)
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
