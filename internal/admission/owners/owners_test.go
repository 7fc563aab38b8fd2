package owners

import (
	"context"
	"fmt"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// allowed has the requests that a user may send, as text.
type allowed map[string]bool

func (all allowed) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	text := fmt.Sprintf("%s %s/%s/%s %s/%s", a.Verb, a.APIGroup, a.Resource, a.Subresource, a.Namespace, a.Name)
	if all[text] {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "not " + text, nil
}

func TestOwners(t *testing.T) {
	registry := resource.NewRegistry(kinds.Definitions()...)
	d := registry.Load().Resource(schema.GroupResource{Resource: "pods"})
	owner := func(apiVersion, kind, name string, blocks any) any {
		ref := resource.Tree{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": name}
		if blocks != nil {
			ref["blockOwnerDeletion"] = blocks
		}
		return ref
	}
	of := func(owners ...any) resource.Tree {
		return resource.Tree{"metadata": resource.Tree{"name": "p", "ownerReferences": owners}}
	}
	const prefix = `pods "p" is forbidden: `
	for _, tc := range []struct {
		name     string
		obj, old resource.Tree
		may      allowed
		want     string
	}{
		{name: "created with an owner", obj: of(owner("apps/v1", "ReplicaSet", "r", nil))},
		{name: "not changed", obj: of(owner("apps/v1", "ReplicaSet", "r", true)), old: of(owner("apps/v1", "ReplicaSet", "r", true))},
		{name: "changed", obj: of(owner("apps/v1", "ReplicaSet", "r", nil)), old: of(), may: allowed{"delete /pods/ n/p": true}},
		{name: "changed without permission to delete", obj: of(), old: of(owner("apps/v1", "ReplicaSet", "r", nil)),
			want: prefix + "cannot set an ownerRef on a resource you can't delete: not delete /pods/ n/p, <nil>"},
		{name: "blocks", obj: of(owner("apps/v1", "ReplicaSet", "r", true)), may: allowed{"update apps/replicasets/finalizers n/r": true}},
		{name: "blocks everything", obj: of(owner("a/v1", "B", "r", true)), may: allowed{"update */*/finalizers /*": true}},
		{name: "blocks a node", obj: of(owner("v1", "Node", "r", true)), may: allowed{"update /nodes/finalizers /r": true}},
		{name: "blocks and may not", obj: of(owner("v1", "Node", "r", true)),
			want: prefix + "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: not update /nodes/finalizers /r, <nil>"},
		{name: "blocks what is not known", obj: of(owner("a/v1", "B", "r", true)),
			want: prefix + `cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion a/v1 Kind B: no matches for kind "B" in version "a/v1"`},
		{name: "blocks from now on", obj: of(owner("v1", "Node", "r", true)), old: of(owner("v1", "Node", "r", false)), may: allowed{"delete /pods/ n/p": true},
			want: prefix + "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: not update /nodes/finalizers /r, <nil>"},
		{name: "no longer blocks", obj: of(owner("v1", "Node", "r", nil)), old: of(owner("v1", "Node", "r", true)), may: allowed{"delete /pods/ n/p": true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &resource.Request{Definition: d, Version: d.Storage, Namespace: "n", Name: "p", User: &authn.User{Name: "u"}}
			a := &resource.Admitted{Request: r, Operation: resource.OperationCreate, Name: "p", Object: tc.obj, Old: tc.old}
			if tc.old != nil {
				a.Operation = resource.OperationUpdate
			}
			got := ""
			if err := New(tc.may, registry).Validate(t.Context(), a); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
