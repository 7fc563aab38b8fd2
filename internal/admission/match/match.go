// Package match selects the requests that an admission webhook, a policy or a binding applies to.
//
// [Criteria] are compiled once for each revision of a configuration, from its rules about
// operations and resources and its selectors of namespaces and objects. A match returns the version
// of the resource in which the request matches: with matchPolicy Equivalent, a rule for apps/v1
// also matches writes of other versions of apps, and the object is then converted to v1 for the
// webhook or policy.
//
// Matching is Kubernetes' (k8s.io/apiserver/pkg/admission/plugin/webhook/predicates and
// policy/matching), including special cases of namespaces: the namespace of a Namespace is itself,
// its labels are those about to be written, and yet it is cluster-scoped.
//
// Criteria are immutable and safe for concurrent use. The package starts no goroutine and has no
// locks.
package match

import (
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Criteria select requests. [OfWebhook] and [OfResources] create them.
type Criteria struct {
	rules, excluded []rule
	all             bool // no rules match every request
	equivalent      bool
	namespaces      labels.Selector
	objects         labels.Selector
	err             error // of an invalid selector
}

// OfWebhook returns the criteria of a webhook. Without rules they match nothing.
func OfWebhook(rules []admissionv1.RuleWithOperations, policy *admissionv1.MatchPolicyType, namespaces, objects *metav1.LabelSelector) *Criteria {
	named := make([]admissionv1.NamedRuleWithOperations, len(rules))
	for i := range rules {
		named[i].RuleWithOperations = rules[i]
	}
	return criteria(named, policy, namespaces, objects)
}

// OfResources returns the criteria of a policy or a binding. Without rules they match everything
// that is not excluded.
func OfResources(m *admissionv1.MatchResources) *Criteria {
	c := criteria(m.ResourceRules, m.MatchPolicy, m.NamespaceSelector, m.ObjectSelector)
	c.excluded = compile(m.ExcludeResourceRules)
	c.all = len(m.ResourceRules) == 0
	return c
}

func criteria(rules []admissionv1.NamedRuleWithOperations, policy *admissionv1.MatchPolicyType, namespaces, objects *metav1.LabelSelector) *Criteria {
	c := &Criteria{rules: compile(rules), equivalent: policy != nil && *policy == admissionv1.Equivalent}
	c.namespaces = c.selector(namespaces)
	c.objects = c.selector(objects)
	return c
}

// selector compiles a selector; nil selects everything, which is the API's default. An invalid one
// selects everything too, and makes the match an error.
func (c *Criteria) selector(s *metav1.LabelSelector) labels.Selector {
	if s == nil {
		return labels.Everything()
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		c.err = apierrors.NewInternalError(err)
		return labels.Everything()
	}
	return selector
}

// As is the form of a matching request: the version of the rule that it matches. Kind is that of
// [resource.Admitted] if this is the version of the request, or the request has a body of its own,
// such as a Scale.
type As struct {
	Version  *resource.Version
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
}

// Match reports whether a request matches, and as what. The error is a Kubernetes API error; it
// means that the request would match, but an object is missing or invalid.
func (c *Criteria) Match(st *state.State, a *resource.Admitted) (as As, ok bool, err error) {
	err = c.err
	if selected, nsErr := c.selectsNamespace(st, a); nsErr != nil {
		err = nsErr
	} else if !selected {
		return As{}, false, nil
	}
	if !c.objects.Empty() && !selects(c.objects, a.Object) && !selects(c.objects, a.Old) {
		return As{}, false, nil
	}
	if _, excluded := c.find(c.excluded, a); excluded {
		return As{}, false, nil
	}
	if c.all {
		as, ok = own(a), true
	} else {
		as, ok = c.find(c.rules, a)
	}
	if !ok {
		return As{}, false, nil
	}
	return as, err == nil, err
}

// selectsNamespace matches the namespace of a request. The selector never excludes cluster-scoped
// objects.
func (c *Criteria) selectsNamespace(st *state.State, a *resource.Admitted) (bool, error) {
	if c.namespaces.Empty() {
		return true, nil
	}
	name := Namespace(a)
	if a.Request.Definition.Plural == namespaces.Resource {
		if a.Request.Subresource == "" && a.Object != nil {
			return selects(c.namespaces, a.Object), nil
		}
	} else if name == "" {
		return true, nil
	}
	ns, _ := st.Get(object.Key{Resource: namespaces, Name: name})
	if ns == nil {
		return false, apierrors.NewNotFound(namespaces, name)
	}
	return c.namespaces.Matches(ns.Meta.Labels), nil
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// Namespace returns the namespace of a request in admission, where that of a Namespace is its own
// name.
func Namespace(a *resource.Admitted) string {
	if a.Request.Definition.GroupResource() == namespaces {
		return a.Name
	}
	return a.Request.Namespace
}

// own returns a request in its own version.
func own(a *resource.Admitted) As {
	return As{Version: a.Request.Version, Resource: resourceIn(a, a.Request.Version), Kind: a.Kind}
}

func resourceIn(a *resource.Admitted, v *resource.Version) schema.GroupVersionResource {
	return a.Request.Definition.GroupVersion(v).WithResource(a.Request.Definition.Plural)
}

// find returns the form of the first rule that matches, with the request's version or with another
// version of its resource.
func (c *Criteria) find(rules []rule, a *resource.Admitted) (As, bool) {
	if len(rules) == 0 {
		return As{}, false
	}
	as := own(a)
	for i := range rules {
		if rules[i].matches(a, as.Resource) {
			return as, true
		}
	}
	if !c.equivalent {
		return As{}, false
	}
	for i := range rules {
		for _, v := range a.Request.Definition.Versions {
			if v == a.Request.Version || !serves(v, a.Request.Subresource) {
				continue
			}
			if in := resourceIn(a, v); rules[i].matches(a, in) {
				return As{Version: v, Resource: in, Kind: kindIn(a, v)}, true
			}
		}
	}
	return As{}, false
}

// serves reports whether a version has a subresource.
func serves(v *resource.Version, subresource string) bool {
	switch subresource {
	case "":
		return true
	case "scale":
		return v.Scale != nil
	}
	return v.Subresource(subresource) != nil
}

// kindIn returns the kind of a request's objects in another version.
func kindIn(a *resource.Admitted, v *resource.Version) schema.GroupVersionKind {
	if d := a.Request.Definition; a.Kind == d.GroupVersionKind(a.Request.Version) {
		return d.GroupVersionKind(v)
	}
	return a.Kind // the kind of a body of its own, which is the same in all versions
}

// A rule is a compiled rule of the API.
type rule struct {
	operations, groups, versions []string
	resources                    []path
	scope                        admissionv1.ScopeType
	names                        []string // of objects; empty means all
}

// A path is a resource and a subresource; each can be "*".
type path struct{ resource, subresource string }

func compile(rules []admissionv1.NamedRuleWithOperations) []rule {
	compiled := make([]rule, len(rules))
	for i := range rules {
		r := &rules[i]
		c := rule{groups: r.APIGroups, versions: r.APIVersions, scope: admissionv1.AllScopes, names: r.ResourceNames}
		if r.Scope != nil {
			c.scope = *r.Scope
		}
		for _, op := range r.Operations {
			c.operations = append(c.operations, string(op))
		}
		for _, name := range r.Resources {
			plural, sub, _ := strings.Cut(name, "/")
			c.resources = append(c.resources, path{plural, sub})
		}
		compiled[i] = c
	}
	return compiled
}

// matches reports whether the rule matches a request as if it were for the given resource.
func (r *rule) matches(a *resource.Admitted, in schema.GroupVersionResource) bool {
	return r.inScope(a, in) &&
		anyOrOne(r.operations, string(a.Operation)) &&
		anyOrOne(r.groups, in.Group) &&
		anyOrOne(r.versions, in.Version) &&
		slices.ContainsFunc(r.resources, func(p path) bool {
			return (p.resource == "*" || p.resource == in.Resource) &&
				(p.subresource == "*" || p.subresource == a.Request.Subresource)
		}) &&
		(len(r.names) == 0 || slices.Contains(r.names, a.Name))
}

func (r *rule) inScope(a *resource.Admitted, in schema.GroupVersionResource) bool {
	if r.scope == admissionv1.AllScopes {
		return true
	}
	namespaced := Namespace(a) != "" && in != namespaces.WithVersion("v1")
	return namespaced == (r.scope == admissionv1.NamespacedScope)
}

func anyOrOne(items []string, wanted string) bool {
	return slices.ContainsFunc(items, func(item string) bool { return item == "*" || item == wanted })
}

// selects reports whether a selector matches an object, which can be nil.
func selects(s labels.Selector, obj resource.Tree) bool {
	if obj == nil {
		return false
	}
	metadata, _ := obj["metadata"].(map[string]any)
	set, _ := metadata["labels"].(map[string]any)
	return s.Matches(tree(set))
}

// A tree has the labels of a decoded object. It implements labels.Labels.
type tree map[string]any

func (t tree) Lookup(name string) (string, bool) {
	v, ok := t[name]
	s, _ := v.(string)
	return s, ok
}

func (t tree) Has(name string) bool {
	_, ok := t[name]
	return ok
}

func (t tree) Get(name string) string {
	s, _ := t.Lookup(name)
	return s
}
