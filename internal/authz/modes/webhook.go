package modes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/cache"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	api "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// webhook sends SubjectAccessReviews to an external authorizer. It is modelled on
// k8s.io/apiserver/plugin/pkg/authorizer/webhook.
type webhook struct {
	name    string
	config  *api.WebhookConfiguration
	matcher *authorizationcel.CELMatcher // nil if it is called for all requests
	url     string
	client  *http.Client
	// transport is the transport of client.
	transport *http.Transport
	answers   *cache.LRUExpireCache // of spec as JSON -> status
}

const (
	maxAnswers = 8192 // maximum number of cached results
	maxAsked   = 10000
	maxBody    = 1 << 20 // maximum size of a response, in bytes
)

func newWebhook(name string, config *api.WebhookConfiguration, compiler authorizationcel.Compiler) (*webhook, error) {
	w := &webhook{name: name, config: config, answers: cache.NewLRUExpireCache(maxAnswers)}
	if config.ConnectionInfo.KubeConfigFile == nil {
		return nil, fmt.Errorf("connection type %q is not supported: name a kubeconfig file", config.ConnectionInfo.Type)
	}
	matcher, problems := validation.ValidateAndCompileMatchConditions(compiler, config.MatchConditions)
	if len(problems) > 0 {
		return nil, problems.ToAggregate()
	}
	if matcher != nil && len(matcher.CompilationResults) > 0 {
		w.matcher = matcher
	}
	kubeconfig, err := clientcmd.LoadFromFile(*config.ConnectionInfo.KubeConfigFile)
	if err != nil {
		return nil, err
	}
	if err := clientcmd.ResolveLocalPaths(kubeconfig); err != nil {
		return nil, err
	}
	target, err := clientcmd.NewDefaultClientConfig(*kubeconfig, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	secure, err := rest.TLSConfigFor(target)
	if err != nil {
		return nil, err
	}
	// This transport is not shared: those of client-go are shared by the whole process.
	w.transport = &http.Transport{TLSClientConfig: secure, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true}
	wrapped, err := rest.HTTPWrappersForConfig(target, w.transport)
	if err != nil {
		return nil, err
	}
	w.url = target.Host
	w.client = &http.Client{Transport: wrapped, Timeout: config.Timeout.Duration}
	return w, nil
}

func (w *webhook) AuthorizerName() string { return w.name }

// RulesFor implements authz.RuleResolver: a webhook cannot list what it would allow.
func (w *webhook) RulesFor(context.Context, *authn.User, string) ([]rbacv1.PolicyRule, bool, error) {
	return nil, true, errors.New("webhook authorizer does not support user rule resolution")
}

// Authorize implements authz.Authorizer.
func (w *webhook) Authorize(ctx context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: specOf(a)}
	if w.matcher != nil {
		switch matches, err := w.matcher.Eval(ctx, review); {
		case err != nil:
			return w.onError(), "", err
		case !matches:
			return authz.NoOpinion, "", nil
		}
	}
	key, err := json.Marshal(review.Spec)
	if err != nil {
		return w.onError(), "", err
	}
	status, known := w.answers.Get(string(key))
	if !known {
		answer, err := w.ask(ctx, key)
		if err != nil {
			return w.onError(), "", err
		}
		w.remember(string(key), a, answer)
		status = answer
	}
	s := status.(authorizationv1.SubjectAccessReviewStatus)
	switch {
	case s.Denied && s.Allowed:
		return authz.Deny, s.Reason, errors.New("webhook subject access review returned both allow and deny response")
	case s.Denied:
		return authz.Deny, s.Reason, nil
	case s.Allowed:
		return authz.Allow, s.Reason, nil
	}
	return authz.NoOpinion, s.Reason, nil
}

func (w *webhook) onError() authz.Decision {
	if w.config.FailurePolicy == api.FailurePolicyDeny {
		return authz.Deny
	}
	return authz.NoOpinion
}

// remember caches a result. Results for very long attributes are not cached, so that a client
// cannot fill the memory.
func (w *webhook) remember(key string, a *authz.Attributes, s authorizationv1.SubjectAccessReviewStatus) {
	size := len(a.Namespace) + len(a.Verb) + len(a.APIGroup) + len(a.APIVersion) + len(a.Resource) + len(a.Subresource) + len(a.Name) + len(a.Path)
	switch {
	case size >= maxAsked:
	case s.Allowed && w.config.CacheAuthorizedRequests:
		w.answers.Add(key, s, w.config.AuthorizedTTL.Duration)
	case !s.Allowed && w.config.CacheUnauthorizedRequests:
		w.answers.Add(key, s, w.config.UnauthorizedTTL.Duration)
	}
}

// ask sends a review until there is a response, at most five times.
func (w *webhook) ask(ctx context.Context, spec []byte) (authorizationv1.SubjectAccessReviewStatus, error) {
	body, err := w.body(spec)
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	const tries = 5
	pause := 500 * time.Millisecond
	for try := 1; ; try++ {
		status, again, err := w.post(ctx, body)
		if err == nil || !again || try == tries {
			return status, err
		}
		select {
		case <-time.After(pause):
			pause += pause / 2
		case <-ctx.Done():
			return status, err
		}
	}
}

// body returns a review in the version of the webhook. The field groups of v1 is group in v1beta1.
func (w *webhook) body(spec []byte) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(spec, &fields); err != nil {
		return nil, err
	}
	if groups, ok := fields["groups"]; ok && w.config.SubjectAccessReviewVersion == "v1beta1" {
		fields["group"] = groups
		delete(fields, "groups")
	}
	return json.Marshal(map[string]any{
		"apiVersion": authorizationv1.GroupName + "/" + w.config.SubjectAccessReviewVersion, "kind": "SubjectAccessReview",
		"metadata": map[string]any{}, "spec": fields, "status": map[string]any{"allowed": false},
	})
}

// post sends one request. again reports whether an error may be temporary.
func (w *webhook) post(ctx context.Context, body []byte) (_ authorizationv1.SubjectAccessReviewStatus, again bool, err error) {
	var answer struct {
		Status authorizationv1.SubjectAccessReviewStatus `json:"status"`
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return answer.Status, false, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := w.client.Do(request)
	if err != nil {
		return answer.Status, utilnet.IsConnectionReset(err) || utilnet.IsConnectionRefused(err), err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	switch {
	case err != nil:
		return answer.Status, false, err
	case response.StatusCode < 200 || response.StatusCode > 299:
		again = response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= 500
		return answer.Status, again, fmt.Errorf("the webhook at %s returned %s", w.url, response.Status)
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return answer.Status, false, fmt.Errorf("the webhook at %s did not return a review: %w", w.url, err)
	}
	return answer.Status, false, nil
}

func specOf(a *authz.Attributes) authorizationv1.SubjectAccessReviewSpec {
	var spec authorizationv1.SubjectAccessReviewSpec
	if u := a.User; u != nil {
		spec.User, spec.UID, spec.Groups = u.Name, u.UID, u.Groups
		for key, values := range u.Extra {
			if spec.Extra == nil {
				spec.Extra = map[string]authorizationv1.ExtraValue{}
			}
			spec.Extra[key] = values
		}
	}
	if !a.ResourceRequest {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.Path, Verb: a.Verb}
		return spec
	}
	in := &authorizationv1.ResourceAttributes{
		Namespace: a.Namespace, Verb: a.Verb, Group: a.APIGroup, Version: a.APIVersion, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
	}
	// Requirements that cannot be expressed are dropped, which only widens the question.
	for _, r := range a.Fields {
		switch r.Operator {
		case selection.Equals, selection.DoubleEquals, selection.In:
			in.FieldSelector = withField(in.FieldSelector, r.Field, metav1.FieldSelectorOpIn, r.Value)
		case selection.NotEquals, selection.NotIn:
			in.FieldSelector = withField(in.FieldSelector, r.Field, metav1.FieldSelectorOpNotIn, r.Value)
		}
	}
	operators := map[selection.Operator]metav1.LabelSelectorOperator{
		selection.Equals: metav1.LabelSelectorOpIn, selection.DoubleEquals: metav1.LabelSelectorOpIn, selection.In: metav1.LabelSelectorOpIn,
		selection.NotEquals: metav1.LabelSelectorOpNotIn, selection.NotIn: metav1.LabelSelectorOpNotIn,
		selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
	}
	for i := range a.Labels {
		r := &a.Labels[i]
		operator, ok := operators[r.Operator()]
		if !ok {
			continue
		}
		if in.LabelSelector == nil {
			in.LabelSelector = &authorizationv1.LabelSelectorAttributes{}
		}
		in.LabelSelector.Requirements = append(in.LabelSelector.Requirements,
			metav1.LabelSelectorRequirement{Key: r.Key(), Operator: operator, Values: r.ValuesUnsorted()})
	}
	spec.ResourceAttributes = in
	return spec
}

func withField(s *authorizationv1.FieldSelectorAttributes, key string, operator metav1.FieldSelectorOperator, value string) *authorizationv1.FieldSelectorAttributes {
	if s == nil {
		s = &authorizationv1.FieldSelectorAttributes{}
	}
	s.Requirements = append(s.Requirements, metav1.FieldSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
	return s
}
