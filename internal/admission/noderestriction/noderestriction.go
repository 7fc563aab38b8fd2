// Package noderestriction is Kubernetes' admission plugin NodeRestriction. It limits what nodes
// write to what they need, where the authorization mode Node cannot: an authorizer does not see the
// contents of a request.
//
//	nodes                 only its own; not its taints, owners, and labels that others rely on
//	pods                  creates mirror pods of its own, which refer to no other objects; deletes,
//	                      evicts and updates the status of pods that are bound to it
//	volume claims         status: capacity and conditions only
//	account tokens        bound to a pod of the node, and for an audience that the pod needs
//	leases, CSI nodes,    its own
//	resource slices
//	certificate requests  of kubelets: for its own name; of pods: for a pod of the node
//
// A node is a user that [node.Identity] knows. Requests of others are not handled.
//
// The behaviour is that of k8s.io/kubernetes/plugin/pkg/admission/noderestriction, except that it
// reads the state and not caches. The package starts no goroutine and has no locks.
package noderestriction

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/authz/node"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Name is the name of the plugin in Kubernetes.
const Name = "NodeRestriction"

// A Plugin restricts nodes. It implements admission.Mutator, because Kubernetes calls it before
// webhooks; it changes nothing.
type Plugin struct {
	State *state.State
	// Permit authorizes another action of the request's user, see [authz.Permit].
	Permit func(ctx context.Context, r *resource.Request, a *authz.Attributes) error
	// Active reports whether nodes are restricted.
	Active func() bool
}

// Handles implements admission.Plugin.
func (p *Plugin) Handles(r *resource.Request, op resource.Operation) bool {
	if op == resource.OperationConnect {
		return false
	}
	if _, ok := node.Identity(authn.Of(r.User)); !ok || !p.Active() {
		return false
	}
	return judgeOf(r.Definition.GroupResource()) != nil
}

// Mutate implements admission.Mutator.
func (p *Plugin) Mutate(ctx context.Context, a *resource.Admitted) error {
	user := authn.Of(a.Request.User)
	name, ok := node.Identity(user)
	if !ok {
		return nil
	}
	if name == "" {
		return admission.Forbidden(a, fmt.Errorf("could not determine node from user %q", user.Name))
	}
	err := judgeOf(a.Request.Definition.GroupResource())(&write{ctx, a, p, name})
	var other *failure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &other):
		return other.error
	}
	return admission.Forbidden(a, err)
}

// A failure is an error of a judge that does not become 403.
type failure struct{ error }

// A write is a request of a node. Its methods return why it is not allowed.
type write struct {
	ctx context.Context
	*resource.Admitted
	plugin *Plugin
	node   string
}

// judgeOf returns the judge of the writes of a resource; nil if they are not restricted.
func judgeOf(gr schema.GroupResource) func(*write) error {
	switch gr {
	case schema.GroupResource{Resource: "pods"}:
		return (*write).pod
	case schema.GroupResource{Resource: "nodes"}:
		return (*write).ownNode
	case schema.GroupResource{Resource: "persistentvolumeclaims"}:
		return (*write).claim
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return (*write).token
	case schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
		return (*write).lease
	case schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}:
		return (*write).csiNode
	case schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}:
		return (*write).slice
	case schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}:
		return (*write).certificate
	case schema.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}:
		return (*write).podCertificate
	}
	return nil
}

// is reports whether the write is an operation on a subresource; "" is the object itself.
func (w *write) is(op resource.Operation, subresource string) bool {
	return w.Operation == op && w.Request.Subresource == subresource
}

// unexpected is the error for an operation that no node needs.
func (w *write) unexpected() error { return fmt.Errorf("unexpected operation %q", w.Operation) }

// named returns the name of the object, also of one that is about to be created.
func (w *write) named() string {
	if w.Operation != resource.OperationCreate {
		return w.Name
	}
	metadata, _ := w.Object["metadata"].(resource.Tree)
	name, _ := metadata["name"].(string)
	return name
}

func (w *write) lease() error {
	switch {
	case w.Request.Namespace != leaseNamespace:
		return fmt.Errorf("can only access leases in the %q system namespace", leaseNamespace)
	case w.named() != w.node:
		return errors.New("can only access node lease with the same name as the requesting node")
	}
	return nil
}

func (w *write) csiNode() error {
	switch {
	case w.named() != w.node:
		return errors.New("can only access CSINode with the same name as the requesting node")
	case w.Request.Subresource == "status":
		return errors.New("CSIVolumeHealth feature gate is disabled")
	}
	return nil
}

func (w *write) slice() error {
	obj, verb := w.Object, "create"
	switch w.Operation {
	case resource.OperationUpdate:
		return nil // the authorizer knows whose slice it is
	case resource.OperationDelete:
		obj, verb = w.Old, "delete"
	}
	spec, _ := obj["spec"].(resource.Tree)
	if name, ok := spec["nodeName"].(string); !ok || name != w.node {
		return fmt.Errorf("can only %s ResourceSlice with the same NodeName as the requesting node", verb)
	}
	return nil
}

// find returns an object of a resource as T. If there is none, the error is a failure with 404.
func find[T any](w *write, gr schema.GroupResource, kind, namespace, name string) (*T, error) {
	o, _ := w.plugin.State.Get(object.Key{Resource: gr, Namespace: namespace, Name: name})
	if o == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: gr.Group, Resource: kind}, name)
	}
	tree, err := o.Tree()
	if err != nil {
		return nil, err
	}
	return admission.Decode[T](tree)
}

// asFailure returns a NotFound error as a failure, and others unchanged.
func asFailure(err error) error {
	if apierrors.IsNotFound(err) {
		return &failure{err}
	}
	return err
}
