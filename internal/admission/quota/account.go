package quota

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An account is one quota in a book.
type account struct {
	namespace, name, uid string
	used                 corev1.ResourceList // nil until the first count
	changed              bool

	stored *object.Object // the quota; nil before load, and if it does not exist
	spec   corev1.ResourceQuotaSpec
}

// load reads the quota. If its spec has changed since the epoch was read, the epoch has changed
// too.
func (a *account) load(st *state.State) error {
	o, _ := st.Get(object.Key{Resource: quotas, Namespace: a.namespace, Name: a.name})
	if o == nil || string(o.Meta.UID) != a.uid {
		return nil
	}
	tree, err := o.Tree()
	if err != nil {
		return err
	}
	quota, err := admission.Decode[corev1.ResourceQuota](tree)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Key, err)
	}
	a.stored, a.spec = o, quota.Spec
	return nil
}

// measured returns the bounded resources of the quota that objects of a resource use.
func (a *account) measured(gr schema.GroupResource) (names []corev1.ResourceName) {
	for name := range a.spec.Hard {
		if measures(gr, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// takes reports whether an object counts for the quota: it uses a bounded resource, and is in all
// scopes.
func (a *account) takes(t thing, gr schema.GroupResource) bool {
	if t == nil || len(a.measured(gr)) == 0 {
		return false
	}
	return len(a.scopesOf(t)) == len(a.scopes())
}

// scopes returns the scopes of the quota.
func (a *account) scopes() []corev1.ScopedResourceSelectorRequirement {
	var all []corev1.ScopedResourceSelectorRequirement
	for _, scope := range a.spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if a.spec.ScopeSelector != nil {
		all = append(all, a.spec.ScopeSelector.MatchExpressions...)
	}
	return all
}

// scopesOf returns the scopes of the quota that an object is in.
func (a *account) scopesOf(t thing) []corev1.ScopedResourceSelectorRequirement {
	return slices.DeleteFunc(a.scopes(), func(scope corev1.ScopedResourceSelectorRequirement) bool { return !t.in(scope) })
}

// usage returns the use of an object, restricted to the bounded resources; empty if the object does
// not count.
func (a *account) usage(t thing, gr schema.GroupResource) corev1.ResourceList {
	used := corev1.ResourceList{}
	if !a.takes(t, gr) {
		return used
	}
	all := t.usage()
	for _, name := range a.measured(gr) {
		if q, ok := all[name]; ok {
			used[name] = q
		}
	}
	return used
}

// count sets the use from the objects in the state.
func (a *account) count(st *state.State) error {
	a.used, a.changed = corev1.ResourceList{}, true
	var resources []schema.GroupResource
	for name := range a.spec.Hard {
		users := usersOf(name)
		if len(users) > 0 {
			a.used[name] = quantity.Quantity{Format: quantity.DecimalSI}
		}
		for _, gr := range users {
			if !slices.Contains(resources, gr) {
				resources = append(resources, gr)
			}
		}
	}
	for _, gr := range resources {
		if err := st.AllReadable(gr); err != nil {
			return fmt.Errorf("count %s: %w", gr, err)
		}
		for o := range st.Snapshot(gr).All(a.namespace) {
			tree, err := o.Tree()
			if err != nil {
				return err
			}
			t, err := measure(gr, tree)
			if err != nil {
				return fmt.Errorf("%s: %w", o.Key, err)
			}
			a.used = sum(a.used, a.usage(t, gr))
		}
	}
	return nil
}

// show claims a write of the quota's status, and reports whether the status differed from the use.
func (a *account) show(c *resource.Claims, d *resource.Definition) (bool, error) {
	tree, err := resource.TreeOf(d, d.Storage, a.stored)
	if err != nil {
		return false, err
	}
	status := resource.Tree{}
	if len(a.spec.Hard) > 0 {
		status["hard"] = texts(a.spec.Hard)
	}
	if len(a.used) > 0 {
		status["used"] = texts(a.used)
	}
	if old, _ := tree["status"].(map[string]any); reflect.DeepEqual(old, status) || len(old) == 0 && len(status) == 0 {
		return false, nil
	}
	tree["status"] = status
	return true, c.Replace(d, a.stored, tree)
}

// sum and difference treat an absent quantity as zero. Their results have the names of both lists.
func sum(a, b corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range a {
		q = q.DeepCopy()
		if other, ok := b[name]; ok {
			q.Add(other)
		}
		out[name] = q
	}
	for name, q := range b {
		if _, ok := a[name]; !ok {
			out[name] = q.DeepCopy()
		}
	}
	return out
}

func difference(a, b corev1.ResourceList) corev1.ResourceList {
	negative := corev1.ResourceList{}
	for name, q := range b {
		q = q.DeepCopy()
		q.Neg()
		negative[name] = q
	}
	return sum(a, negative)
}

func same(a, b corev1.ResourceList) bool {
	for _, q := range difference(a, b) {
		if !q.IsZero() {
			return false
		}
	}
	return true
}

// positive returns the quantities of a list above zero.
func positive(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		if q.Sign() > 0 {
			out[name] = q
		}
	}
	return out
}

// printed formats a part of a list as in Kubernetes' messages.
func printed(list corev1.ResourceList, names []corev1.ResourceName) string {
	var parts []string
	for _, name := range names {
		if q, ok := list[name]; ok {
			parts = append(parts, fmt.Sprintf("%s=%s", name, q.String()))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}
