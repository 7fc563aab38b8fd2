// Package node authorizes the requests of nodes, as the authorization mode Node of kube-apiserver
// does.
//
// A kubelet authenticates as the user system:node:NAME of the group system:nodes. An [Authorizer]
// allows it what every node needs, by the rules of the cluster role system:node, but objects with
// contents of others only if they belong to the node:
//
//	pods, volume attachments,          those that name the node
//	resource slices, pod
//	certificate requests
//	secrets, config maps, accounts,    those that a pod of the node refers to
//	volume claims, resource claims
//	volumes                            those of the claims of a pod of the node
//	secrets                            those that such a volume refers to
//	nodes, leases, CSI nodes           the one with the name of the node
//
// References of mirror pods do not count: a node creates these itself.
//
// # The graph
//
// The relations are edges in sorted trees ([graph]), so that a decision is one search: is there an
// edge from this secret to this node? Only secrets of volumes take a search for each volume that
// refers to the secret. The graph follows the state ([state.Derived]): a decision includes each
// write that committed before it, and the first request of a node after a write processes the
// written objects, not all of them. Until a node sends a request, the graph does not exist and
// costs nothing.
//
// What nodes write is restricted by the admission plugin NodeRestriction: an authorizer does not
// see contents.
//
// Decisions and reasons are those of k8s.io/kubernetes/plugin/pkg/auth/authorizer/node. The package
// starts no goroutine and has no locks.
package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/authz/rbac"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// Group is the group of all nodes, and userPrefix precedes the name of a node in its user name.
const (
	Group      = "system:nodes"
	userPrefix = "system:node:"
)

// Identity returns the name of the node that a user is; ok is false if the user is not a node.
func Identity(u *authn.User) (name string, ok bool) {
	if u == nil {
		return "", false
	}
	name, ok = strings.CutPrefix(u.Name, userPrefix)
	if !ok || !u.In(Group) {
		return "", false
	}
	return name, true
}

// An Authorizer decides on the requests of nodes, and has no opinion on those of others. It
// implements [authz.Authorizer] and [authz.RuleResolver]. Make one with [New].
type Authorizer struct {
	graph *state.Derived[*graph]
	rules *rbac.RuleSet
}

// New returns an Authorizer over a state. rules are those of every node. The first request of a
// node makes the graph.
func New(s *state.State, rules []rbacv1.PolicyRule) *Authorizer {
	return &Authorizer{state.Derive(s, fold, pods, volumes, attachments, resourceSlices, podCertificates), rbac.Compile(rules)}
}

// AuthorizerName implements authz.Named.
func (a *Authorizer) AuthorizerName() string { return "node" }

// RulesFor implements authz.RuleResolver: the rules of nodes cannot be listed.
func (a *Authorizer) RulesFor(_ context.Context, u *authn.User, _ string) ([]rbacv1.PolicyRule, bool, error) {
	if _, ok := Identity(u); ok {
		return nil, true, errors.New("node authorizer does not support user rule resolution")
	}
	return nil, false, nil
}

// Authorize implements authz.Authorizer. It returns Allow or NoOpinion.
func (a *Authorizer) Authorize(_ context.Context, asked *authz.Attributes) (authz.Decision, string, error) {
	name, ok := Identity(asked.User)
	if !ok {
		return authz.NoOpinion, "", nil
	}
	if name == "" {
		return authz.NoOpinion, fmt.Sprintf("unknown node for user %q", asked.User.Name), nil
	}
	if allowed, reason := a.decide(name, asked); !allowed {
		return authz.NoOpinion, reason, nil
	}
	return authz.Allow, "", nil
}

// decide returns whether a node may send a request, and the reason if it may not.
func (a *Authorizer) decide(node string, asked *authz.Attributes) (bool, string) {
	r := request{Attributes: asked, node: node, graph: a.graph}
	if asked.ResourceRequest {
		switch (schema.GroupResource{Group: asked.APIGroup, Resource: asked.Resource}) {
		case resource("", "secrets"):
			return r.read(secretThing)
		case resource("", "configmaps"):
			return r.read(configMapThing)
		case resource("", "persistentvolumeclaims"):
			if asked.Subresource == "status" {
				return r.updateStatus(claimThing)
			}
			return r.get(claimThing)
		case volumes:
			return r.get(volumeThing)
		case resource("resource.k8s.io", "resourceclaims"):
			return r.get(resourceClaimThing)
		case attachments:
			return r.get(attachmentThing)
		case resource("", "serviceaccounts"):
			return r.account()
		case resource("coordination.k8s.io", "leases"):
			return r.lease()
		case resource("storage.k8s.io", "csinodes"):
			return r.csiNode()
		case resourceSlices:
			return r.slice()
		case resource("", "nodes"):
			return r.ownNode()
		case pods:
			return r.pod()
		case podCertificates:
			return r.podCertificate()
		}
	}
	return a.rules.Allows(asked), ""
}

// A request is one of a node for a resource that not all nodes have the same access to. Its methods
// return whether it is allowed, and the reason if it is not.
type request struct {
	*authz.Attributes
	node  string
	graph *state.Derived[*graph]
}

// related allows requests for one object of a kind that belongs to the node.
func (r *request) related(kind thingKind) (bool, string) {
	if r.Name == "" {
		return false, "No Object name found"
	}
	return r.linked(kind)
}

// linked is related for a request that has a name.
func (r *request) linked(kind thingKind) (bool, string) {
	if r.graph.Load().leads(thing{kind, r.Namespace, r.Name}, r.node) {
		return true, ""
	}
	return false, fmt.Sprintf("no relationship found between node '%s' and this object", r.node)
}

func (r *request) get(kind thingKind) (bool, string) {
	switch {
	case r.Verb != "get":
		return false, "can only get individual resources of this type"
	case r.Subresource != "":
		return false, "cannot get subresource"
	}
	return r.related(kind)
}

func (r *request) read(kind thingKind) (bool, string) {
	switch {
	case !r.verbIn("get", "list", "watch"):
		return false, "can only read resources of this type"
	case r.Subresource != "":
		return false, "cannot read subresource"
	case r.Namespace == "":
		return false, "can only read namespaced object of this type"
	}
	return r.related(kind)
}

func (r *request) updateStatus(kind thingKind) (bool, string) {
	if !r.verbIn("update", "patch") {
		return false, "can only get/update/patch this type"
	}
	return r.related(kind)
}

func (r *request) account() (bool, string) {
	switch {
	case r.Verb == "get" && r.Subresource == "":
		return r.read(accountThing)
	case r.Verb != "create" || r.Name == "":
		return false, "can only create tokens for individual service accounts"
	case r.Subresource != "token":
		return false, "can only create token subresource of serviceaccount"
	}
	return r.linked(accountThing)
}

// lease allows to create leases of any name, which the path does not have: admission checks it.
func (r *request) lease() (bool, string) {
	switch {
	case !r.verbIn("get", "create", "update", "patch", "delete"):
		return false, "can only get, create, update, patch, or delete a node lease"
	case r.Namespace != corev1.NamespaceNodeLease:
		return false, fmt.Sprintf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case r.Verb != "create" && r.Name != r.node:
		return false, "can only access node lease with the same name as the requesting node"
	}
	return true, ""
}

func (r *request) csiNode() (bool, string) {
	switch {
	case r.Subresource == "status":
		return false, "CSINode status access requires CSIVolumeHealth feature"
	case r.Subresource != "":
		return false, "cannot authorize CSINode subresources"
	case !r.verbIn("get", "create", "update", "patch", "delete"):
		return false, "can only get, create, update, patch, or delete a CSINode"
	case r.Verb != "create" && r.Name != r.node:
		return false, "can only access CSINode with the same name as the requesting node"
	}
	return true, ""
}

func (r *request) slice() (bool, string) {
	if r.Subresource != "" {
		return false, "cannot authorize ResourceSlice subresources"
	}
	switch r.Verb {
	case "create":
		return true, ""
	case "get", "update", "patch", "delete":
		return r.related(sliceThing)
	case "watch", "list", "deletecollection":
		if r.selectsNode() {
			return true, ""
		}
		return false, "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return false, "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
}

func (r *request) podCertificate() (bool, string) {
	if r.Subresource != "" {
		return false, "nodes may not access the status subresource of PodCertificateRequests"
	}
	switch r.Verb {
	case "create":
		return true, ""
	case "get":
		return r.related(podCertificateThing)
	case "list", "watch":
		if r.selectsNode() {
			return true, ""
		}
		return false, "can only list/watch podcertificaterequests with nodeName field selector"
	}
	return false, fmt.Sprintf("nodes may not %s podcertificaterequests", r.Verb)
}

// ownNode compares names, and does not look for the node: a kubelet reads its node before it
// creates it.
func (r *request) ownNode() (bool, string) {
	switch {
	case r.Subresource == "" && r.verbIn("create", "update", "patch"):
		return true, ""
	case r.Subresource == "" && r.verbIn("get", "list", "watch"):
		switch r.Name {
		case r.node:
			return true, ""
		case "":
			return false, fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", r.node)
		}
		return false, fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", r.node, r.Name)
	}
	return r.Subresource == "status" && r.verbIn("update", "patch"), ""
}

func (r *request) pod() (bool, string) {
	switch r.Subresource {
	case "":
		switch r.Verb {
		case "get":
			return r.get(podThing)
		case "list", "watch":
			switch {
			case r.selectsNode():
				return true, ""
			case r.Name != "":
				return r.related(podThing)
			}
			return false, "can only list/watch pods with spec.nodeName field selector"
		}
		return r.verbIn("create", "delete"), ""
	case "status":
		return r.verbIn("update", "patch"), ""
	case "eviction":
		return r.Verb == "create", ""
	}
	return false, ""
}

// selectsNode reports whether the request is for objects whose spec.nodeName is the node.
func (r *request) selectsNode() bool {
	for _, one := range r.Fields {
		if one.Field == "spec.nodeName" && one.Operator == selection.Equals && one.Value == r.node {
			return true
		}
	}
	return false
}

func (r *request) verbIn(verbs ...string) bool {
	for _, verb := range verbs {
		if r.Verb == verb {
			return true
		}
	}
	return false
}

func resource(group, plural string) schema.GroupResource {
	return schema.GroupResource{Group: group, Resource: plural}
}
