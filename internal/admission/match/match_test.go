package match_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/match"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/test/seeds"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	listersv1 "k8s.io/client-go/listers/core/v1"
)

// definitions returns the resources of these tests: one in two versions and two groups, of which
// only one has a scale subresource; namespaces; and a cluster-scoped kind.
func definitions() (widgets, namespaces, nodes *resource.Definition) {
	v1 := &resource.Version{Name: "v1", Scale: &resource.Scale{}, Subresources: []resource.Subresource{{Name: "status"}}}
	v2 := &resource.Version{Name: "v2", Subresources: []resource.Subresource{{Name: "status"}}}
	old := &resource.Version{Name: "v1", Group: "old.example.com"}
	widgets = &resource.Definition{
		Group: "example.com", Plural: "widgets", Kind: "Widget", Namespaced: true,
		Versions: []*resource.Version{v1, v2, old}, Storage: v1,
	}
	core := &resource.Version{Name: "v1", Subresources: []resource.Subresource{{Name: "status"}}}
	namespaces = &resource.Definition{Plural: "namespaces", Kind: "Namespace", Versions: []*resource.Version{core}, Storage: core}
	nodes = &resource.Definition{Plural: "nodes", Kind: "Node", Versions: []*resource.Version{core}, Storage: core}
	return widgets, namespaces, nodes
}

// lister has the labels of namespaces. It also implements a NamespaceLister for Kubernetes'
// matcher.
type lister map[string]map[string]string

func (l lister) List(labels.Selector) ([]*corev1.Namespace, error) { panic("not asked") }

func (l lister) Get(name string) (*corev1.Namespace, error) {
	set, ok := l[name]
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("no namespace %q", name))
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}}, nil
}

var _ listersv1.NamespaceLister = lister{}

func (l lister) state(t *testing.T) *state.State {
	t.Helper()
	st, err := state.Open(t.Context(), memory.New(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, set := range l {
		key := object.Key{Resource: schema.GroupResource{Resource: "namespaces"}, Name: name}
		o, err := object.New(key, labelled(name, set), 1, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: key, Object: o}}}); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

func labelled(name string, set map[string]string) resource.Tree {
	tree := map[string]any{}
	for k, v := range set {
		tree[k] = v
	}
	return resource.Tree{"apiVersion": "v1", "kind": "Any", "metadata": map[string]any{"name": name, "uid": name, "labels": tree}}
}

// interfaces has the versions of a resource besides that of a request.
type interfaces struct {
	admission.ObjectInterfaces
	mapper runtime.EquivalentResourceMapper
}

func (i interfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper { return i.mapper }

func equivalents(all ...*resource.Definition) interfaces {
	registry := runtime.NewEquivalentResourceRegistryWithIdentity(func(gr schema.GroupResource) string { return gr.Resource })
	for _, d := range all {
		for _, v := range d.Versions {
			gvr, gvk := d.GroupVersion(v).WithResource(d.Plural), d.GroupVersionKind(v)
			registry.RegisterKindFor(gvr, "", gvk)
			for _, sub := range v.Subresources {
				registry.RegisterKindFor(gvr, sub.Name, gvk)
			}
			if v.Scale != nil {
				registry.RegisterKindFor(gvr, "scale", scaleKind)
			}
		}
	}
	return interfaces{mapper: registry}
}

var scaleKind = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}

// criteria are the criteria for Kubernetes' matcher.
type criteria struct{ *admissionv1.MatchResources }

func (c criteria) GetParsedNamespaceSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(c.NamespaceSelector)
}
func (c criteria) GetParsedObjectSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(c.ObjectSelector)
}
func (c criteria) GetMatchResources() admissionv1.MatchResources { return *c.MatchResources }

// TestAgainstKubernetes compares the results for random requests with those of Kubernetes' matcher.
func TestAgainstKubernetes(t *testing.T) {
	seed := seeds.Of(t)
	g := gen{rand.New(rand.NewPCG(seed, 1))}
	spaces := lister{"a": {"color": "red"}, "b": {"color": "blue", "size": "big"}, "c": nil}
	st := spaces.state(t)
	widgets, namespaces, nodes := definitions()
	judge := matching.NewMatcher(spaces, nil)
	objects := equivalents(widgets, namespaces, nodes)
	matched := 0
	for range 20000 {
		a := g.admitted(widgets, namespaces, nodes)
		m := g.resources()
		as, ok, err := match.OfResources(m).Match(st, a)
		wantOK, wantResource, wantKind, wantErr := judge.Matches(attributes(a), objects, criteria{m})
		if ok != wantOK || (err != nil) != (wantErr != nil) || ok && (as.Resource != wantResource || as.Kind != wantKind) {
			t.Fatalf("%s of %s: got %t %v %v (%v), want %t %v %v (%v)\n%s", a.Operation, describe(a),
				ok, as.Resource, as.Kind, err, wantOK, wantResource, wantKind, wantErr, m)
		}
		if ok {
			matched++
			if got := a.Request.Definition.GroupVersion(as.Version).WithResource(a.Request.Definition.Plural); got != as.Resource {
				t.Fatalf("version %s, resource %s", got, as.Resource)
			}
		}
	}
	if matched < 1000 {
		t.Errorf("only %d matches", matched)
	}
}

func attributes(a *resource.Admitted) admission.Attributes {
	d, v := a.Request.Definition, a.Request.Version
	return admission.NewAttributesRecord(shown(a.Object), shown(a.Old), a.Kind, match.Namespace(a), a.Name,
		d.GroupVersion(v).WithResource(d.Plural), a.Request.Subresource, admission.Operation(a.Operation), nil, false, nil)
}

func shown(obj resource.Tree) runtime.Object {
	if obj == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: obj}
}

func describe(a *resource.Admitted) string {
	return fmt.Sprintf("%s/%s %s/%s (%v, was %v)", a.Kind, a.Request.Subresource, a.Request.Namespace, a.Name, a.Object, a.Old)
}

// gen generates requests and criteria from few words, so that they often match.
type gen struct{ *rand.Rand }

func (g gen) one(items ...string) string { return items[g.IntN(len(items))] }

func (g gen) some(items ...string) []string {
	var some []string
	for range 1 + g.IntN(2) {
		some = append(some, g.one(items...))
	}
	return some
}

func (g gen) labels() map[string]string {
	set := map[string]string{}
	for range g.IntN(3) {
		set[g.one("color", "size")] = g.one("red", "blue", "big")
	}
	return set
}

func (g gen) selector() *metav1.LabelSelector {
	switch g.IntN(4) {
	case 0:
		return &metav1.LabelSelector{MatchLabels: g.labels()}
	case 1:
		op := []metav1.LabelSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist"}[g.IntN(4)]
		r := metav1.LabelSelectorRequirement{Key: g.one("color", "size"), Operator: op}
		if op == "In" || op == "NotIn" {
			r.Values = g.some("red", "blue", "big")
		}
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{r}}
	}
	return &metav1.LabelSelector{}
}

func (g gen) rules(most int) (rules []admissionv1.NamedRuleWithOperations) {
	for range g.IntN(most + 1) {
		r := admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Rule: admissionv1.Rule{
				APIGroups:   g.some("*", "", "example.com", "old.example.com"),
				APIVersions: g.some("*", "v1", "v2"),
				Resources:   g.some("*", "*/*", "widgets", "widgets/*", "*/scale", "namespaces", "nodes", "widgets/status"),
			},
			Operations: []admissionv1.OperationType{admissionv1.OperationType(g.one("*", "CREATE", "UPDATE", "DELETE"))},
		}}
		if g.IntN(2) == 0 {
			scope := admissionv1.ScopeType(g.one("*", "Cluster", "Namespaced"))
			r.Scope = &scope
		}
		if g.IntN(4) == 0 {
			r.ResourceNames = g.some("a", "b", "x")
		}
		rules = append(rules, r)
	}
	return rules
}

func (g gen) resources() *admissionv1.MatchResources {
	policy := admissionv1.MatchPolicyType(g.one("Exact", "Equivalent"))
	return &admissionv1.MatchResources{
		NamespaceSelector: g.selector(), ObjectSelector: g.selector(),
		ResourceRules: g.rules(3), ExcludeResourceRules: g.rules(1), MatchPolicy: &policy,
	}
}

func (g gen) admitted(widgets, namespaces, nodes *resource.Definition) *resource.Admitted {
	d := []*resource.Definition{widgets, widgets, namespaces, nodes}[g.IntN(4)]
	v := d.Versions[g.IntN(len(d.Versions))]
	r := &resource.Request{Definition: d, Version: v, Name: g.one("a", "b", "c")}
	if d.Namespaced {
		r.Namespace = g.one("a", "b", "c")
	}
	a := &resource.Admitted{
		Request: r, Name: r.Name, Kind: d.GroupVersionKind(v),
		Operation: resource.Operation(g.one("CREATE", "UPDATE", "DELETE")),
	}
	if v.Subresource("status") != nil && a.Operation == resource.OperationUpdate && g.IntN(3) == 0 {
		r.Subresource = "status"
	}
	if v.Scale != nil && g.IntN(4) == 0 {
		r.Subresource, a.Kind = "scale", scaleKind
	}
	if a.Operation != resource.OperationDelete {
		a.Object = labelled(a.Name, g.labels())
	}
	if a.Operation != resource.OperationCreate {
		a.Old = labelled(a.Name, g.labels())
	}
	return a
}

func TestNamespaceThatIsNotThere(t *testing.T) {
	st := lister{}.state(t)
	widgets, _, _ := definitions()
	a := &resource.Admitted{
		Request:   &resource.Request{Definition: widgets, Version: widgets.Storage, Namespace: "gone"},
		Operation: resource.OperationCreate, Kind: widgets.GroupVersionKind(widgets.Storage), Object: labelled("x", nil),
	}
	rules := func(plural string) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{"*"},
			Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{plural}},
		}}
	}
	red := &metav1.LabelSelector{MatchLabels: map[string]string{"color": "red"}}
	if _, ok, err := match.OfWebhook(rules("widgets"), nil, red, nil).Match(st, a); ok || !apierrors.IsNotFound(err) {
		t.Errorf("got %t, %v; want 404", ok, err)
	}
	// A request that does not match anyway needs no namespace.
	if _, ok, err := match.OfWebhook(rules("nodes"), nil, red, nil).Match(st, a); ok || err != nil {
		t.Errorf("got %t, %v; want no match", ok, err)
	}
	if _, ok, err := match.OfWebhook(nil, nil, nil, nil).Match(st, a); ok || err != nil {
		t.Errorf("without rules: got %t, %v; want no match", ok, err)
	}
	wrong := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	if _, ok, err := match.OfWebhook(rules("widgets"), nil, nil, wrong).Match(st, a); ok || !apierrors.IsInternalError(err) {
		t.Errorf("wrong selector: got %t, %v; want 500", ok, err)
	}
}

func BenchmarkMatch(b *testing.B) {
	widgets, _, _ := definitions()
	st, err := state.Open(context.Background(), memory.New(), state.Options{})
	if err != nil {
		b.Fatal(err)
	}
	a := &resource.Admitted{
		Request:   &resource.Request{Definition: widgets, Version: widgets.Storage, Namespace: "a"},
		Operation: resource.OperationCreate, Kind: widgets.GroupVersionKind(widgets.Storage), Object: labelled("x", nil),
	}
	c := match.OfWebhook([]admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{"CREATE", "UPDATE"},
		Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
	}}, nil, nil, nil)
	for b.Loop() {
		if _, ok, _ := c.Match(st, a); ok {
			b.Fatal("matched")
		}
	}
}
