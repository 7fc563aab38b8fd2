// Package owners is Kubernetes' plugin OwnerReferencesPermissionEnforcement, which is off by
// default: a user who changes the owners of an object must be allowed to delete the object, and a
// user who sets blockOwnerDeletion must be allowed to set finalizers on that owner.
//
// The package starts no goroutine and has no locks.
package owners

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Name is the name of the plugin.
const Name = "OwnerReferencesPermissionEnforcement"

// A Plugin implements admission.Validator. It is safe for concurrent use.
type Plugin struct {
	authorizer authz.Authorizer
	registry   *resource.Registry
}

// New returns a Plugin that uses an authorizer, and the kinds of a registry.
func New(authorizer authz.Authorizer, registry *resource.Registry) *Plugin {
	return &Plugin{authorizer, registry}
}

// Handles implements admission.Plugin. Writes of a pod's status cannot change its owners.
func (p *Plugin) Handles(r *resource.Request, op resource.Operation) bool {
	if r.Definition.Group == "" && r.Definition.Plural == "pods" && r.Subresource == "status" {
		return false
	}
	return op == resource.OperationCreate || op == resource.OperationUpdate
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(ctx context.Context, a *resource.Admitted) error {
	now, before := ownersOf(a.Object), ownersOf(a.Old)
	if slices.EqualFunc(now, before, func(x, y metav1.OwnerReference) bool { return reflect.DeepEqual(x, y) }) {
		return nil
	}
	r := a.Request
	if a.Operation != resource.OperationCreate {
		allowed, reason, err := p.may(ctx, &authz.Attributes{
			User: authn.Of(r.User), Verb: "delete", Namespace: r.Namespace, APIGroup: r.GroupResource().Group, APIVersion: r.Version.Name,
			Resource: r.Definition.Plural, Subresource: r.Subresource, Name: a.Name, ResourceRequest: true,
		})
		if !allowed {
			return admission.Forbidden(a, fmt.Errorf("cannot set an ownerRef on a resource you can't delete: %v, %v", reason, err))
		}
	}
	blocking := newlyBlocking(now, before)
	if len(blocking) == 0 {
		return nil
	}
	if all, _, _ := p.may(ctx, &authz.Attributes{
		User: authn.Of(r.User), Verb: "update", APIGroup: "*", APIVersion: "*", Resource: "*", Subresource: "finalizers", Name: "*", ResourceRequest: true,
	}); all {
		return nil
	}
	for _, owner := range blocking {
		if err := p.mayBlock(ctx, a, owner); err != nil {
			return admission.Forbidden(a, err)
		}
	}
	return nil
}

// mayBlock returns an error unless the user may set finalizers on an owner.
func (p *Plugin) mayBlock(ctx context.Context, a *resource.Admitted, owner metav1.OwnerReference) error {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	var d *resource.Definition
	if err == nil {
		gk := schema.GroupKind{Group: gv.Group, Kind: owner.Kind}
		if d = p.registry.Load().Kind(gk); d == nil || d.Version(gv) == nil {
			err = fmt.Errorf("no matches for kind %q in version %q", owner.Kind, owner.APIVersion)
			if gv.Version == "" {
				err = errors.New("no matches for " + gk.String())
			}
		}
	}
	if err != nil {
		return fmt.Errorf("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: %v", owner.APIVersion, owner.Kind, err)
	}
	attributes := &authz.Attributes{
		User: authn.Of(a.Request.User), Verb: "update", APIGroup: gv.Group, APIVersion: gv.Version, Resource: d.Plural,
		Subresource: "finalizers", Name: owner.Name, ResourceRequest: true,
	}
	if d.Namespaced {
		attributes.Namespace = a.Request.Namespace
	}
	if allowed, reason, err := p.may(ctx, attributes); !allowed {
		return fmt.Errorf("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v", reason, err)
	}
	return nil
}

func (p *Plugin) may(ctx context.Context, a *authz.Attributes) (allowed bool, reason string, err error) {
	d, reason, err := p.authorizer.Authorize(ctx, a)
	return d == authz.Allow, reason, err
}

func ownersOf(obj resource.Tree) []metav1.OwnerReference {
	if obj == nil {
		return nil
	}
	return (&unstructured.Unstructured{Object: obj}).GetOwnerReferences()
}

// newlyBlocking returns the owners whose deletion is blocked now, and was not before.
func newlyBlocking(now, before []metav1.OwnerReference) []metav1.OwnerReference {
	blocks := func(r metav1.OwnerReference) bool { return r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion }
	blocked := map[types.UID]bool{}
	for _, r := range before {
		blocked[r.UID] = blocks(r)
	}
	return slices.DeleteFunc(slices.Clone(now), func(r metav1.OwnerReference) bool { return !blocks(r) || blocked[r.UID] })
}
