package main

import (
	"context"
	"fmt"
	"net/netip"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kapok-dev/kapok/client"
	ctrl "github.com/kapok-dev/kapok/controller"
	v1 "github.com/kapok-dev/kapok/examples/network/api/v1"
	"github.com/kapok-dev/kapok/examples/network/provider"
)

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments/finalizers,verbs=update

// A DeploymentReconciler makes a Network for each Deployment, with addresses that no other Network has. It goes with its Deployment.
type DeploymentReconciler struct {
	client.Client
	// Pool has the addresses of the Networks, Bits is the length of the prefix of each.
	Pool netip.Prefix
	Bits int
}

// SetupWithManager has the reconciler called for Deployments.
func (r *DeploymentReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&appsv1.Deployment{}).
		Owns(&v1.Network{}).
		// One after the other: two at once would choose the same addresses.
		WithOptions(ctrl.Options{MaxConcurrentReconciles: 1, CacheSyncTimeout: -1}).
		Complete(r)
}

// Reconcile makes the Network, if there is none.
func (r *DeploymentReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	deployment := &appsv1.Deployment{}
	if err := r.Get(ctx, req.NamespacedName, deployment); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !deployment.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	networks := &v1.NetworkList{} // with those that were made a moment ago: the client sees its own writes
	if err := r.List(ctx, networks); err != nil {
		return ctrl.Result{}, err
	}
	var taken []netip.Prefix
	for _, n := range networks.Items {
		if client.ObjectKeyFromObject(&n) == req.NamespacedName {
			if !metav1.IsControlledBy(&n, deployment) {
				ctrl.LoggerFrom(ctx).Info("There is a Network of this name already, which is not the Deployment's")
			}
			return ctrl.Result{}, nil
		}
		if prefix, err := netip.ParsePrefix(n.Spec.Cidr); err == nil {
			taken = append(taken, prefix.Masked())
		}
	}
	cidr, ok := freePrefix(r.Pool, r.Bits, taken)
	if !ok {
		return ctrl.Result{}, fmt.Errorf("no addresses are left in %s for a /%d", r.Pool, r.Bits)
	}
	network := &v1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name},
		Spec:       v1.NetworkSpec{Cidr: cidr.String(), Gateway: cidr.Addr().Next().String()},
	}
	if err := ctrl.SetControllerReference(deployment, network, r.Scheme()); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.Create(ctx, network)
}

// freePrefix finds the first range of addresses in a pool that shares none with those that are taken.
func freePrefix(pool netip.Prefix, bits int, taken []netip.Prefix) (netip.Prefix, bool) {
	at := pool.Masked().Addr()
search:
	for at.IsValid() && pool.Contains(at) {
		free, err := at.Prefix(bits)
		if err != nil || bits < pool.Bits() {
			break
		}
		for _, t := range taken {
			if t.Overlaps(free) { // then one of both contains the other
				at = provider.LastAddr(free)
				if t.Bits() < bits {
					at = provider.LastAddr(t)
				}
				at = at.Next()
				continue search
			}
		}
		return free, true
	}
	return netip.Prefix{}, false
}
