package builtin

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/kapok-dev/kapok/internal/auth"
	authrbac "github.com/kapok-dev/kapok/internal/auth/rbac"
	"github.com/kapok-dev/kapok/internal/resource"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Nobody gives away more than they have: who writes a role has all that is in it, or may escalate; who writes a binding
// has all that is in its role, or may bind it. The source is k8s.io/kubernetes/pkg/registry/rbac/*/policybased.

// permitRole is Hooks.Permit of roles.
func permitRole(ctx context.Context, s *resource.Store, r *resource.Request, obj, old resource.Tree) error {
	if r.User.In(auth.Masters) || onlyForCollector(obj, old) {
		return nil
	}
	escalate := &auth.Attributes{
		Verb: "escalate", ResourceRequest: true, APIGroup: rbacv1.GroupName, APIVersion: "*",
		Resource: r.Definition.Plural, Namespace: r.Namespace, Name: r.Name,
	}
	if s.Permit(ctx, r, escalate) == nil {
		return nil
	}
	role := decoded[rbacv1.ClusterRole](obj) // a Role is one that gathers nothing
	if err := ensureHeld(s, r, role.Rules); err != nil {
		return apierrors.NewForbidden(r.GroupResource(), role.Name, err)
	}
	if gathers(role) || old != nil && gathers(decoded[rbacv1.ClusterRole](old)) {
		if ensureHeld(s, r, everything()) != nil {
			return apierrors.NewForbidden(r.GroupResource(), role.Name, errors.New("must have cluster-admin privileges to use the aggregationRule"))
		}
	}
	return nil
}

// gathers says whether a role gets its rules from others, which may be any.
func gathers(role *rbacv1.ClusterRole) bool {
	return role.AggregationRule != nil && len(role.AggregationRule.ClusterRoleSelectors) > 0
}

func everything() []rbacv1.PolicyRule {
	all := []string{"*"}
	return []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}
}

// permitBinding is Hooks.Permit of bindings.
func permitBinding(ctx context.Context, s *resource.Store, r *resource.Request, obj, old resource.Tree) error {
	if r.User.In(auth.Masters) || onlyForCollector(obj, old) {
		return nil
	}
	binding := decoded[rbacv1.RoleBinding](obj)
	if mayBind(ctx, s, r, binding.RoleRef) {
		return nil
	}
	roles := s.Gate().Roles
	if roles == nil {
		return apierrors.NewForbidden(r.GroupResource(), binding.Name, errors.New("roles are not known"))
	}
	rules, err := roles.RulesOf(binding.RoleRef, r.Namespace, r.GroupResource())
	if err != nil {
		return err
	}
	if err := ensureHeld(s, r, rules); err != nil {
		return apierrors.NewForbidden(r.GroupResource(), binding.Name, err)
	}
	return nil
}

// mayBind asks for the verb bind on a role, in the namespace of the binding.
func mayBind(ctx context.Context, s *resource.Store, r *resource.Request, ref rbacv1.RoleRef) bool {
	bind := &auth.Attributes{
		Verb: "bind", ResourceRequest: true, APIGroup: ref.APIGroup, APIVersion: "*", Namespace: r.Namespace, Name: ref.Name,
	}
	switch ref.Kind {
	case "ClusterRole":
		bind.Resource = "clusterroles"
	case "Role":
		bind.Resource = "roles"
	default:
		return false
	}
	return s.Permit(ctx, r, bind) == nil
}

// ensureHeld returns an error that lists what of some rules the user of a request does not have himself.
func ensureHeld(s *resource.Store, r *resource.Request, rules []rbacv1.PolicyRule) error {
	var held []rbacv1.PolicyRule
	var unresolved error
	if roles := s.Gate().Roles; roles != nil {
		held, unresolved = roles.Held(r.User, r.Namespace, r.GroupResource())
	}
	missing := authrbac.Missing(held, rules)
	if missing == "" {
		return nil
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s", r.User.Name, r.User.Groups, missing)
	if unresolved != nil {
		text += fmt.Sprintf("; resolution errors: %v", []error{unresolved})
	}
	return errors.New(text)
}

// onlyForCollector says whether an update changes nothing but what the garbage collector changes.
func onlyForCollector(obj, old resource.Tree) bool {
	if old == nil {
		return false
	}
	rest := func(obj resource.Tree) resource.Tree {
		obj = maps.Clone(obj)
		delete(obj, "apiVersion")
		delete(obj, "kind")
		metadata, _ := obj["metadata"].(resource.Tree)
		metadata = maps.Clone(metadata)
		for _, key := range []string{"ownerReferences", "finalizers", "managedFields", "selfLink"} {
			delete(metadata, key)
		}
		obj["metadata"] = metadata
		return obj
	}
	return equality.Semantic.DeepEqual(rest(obj), rest(old))
}
