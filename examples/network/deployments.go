package main

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/kapok-dev/kapok/ctrl"
	v1 "github.com/kapok-dev/kapok/examples/network/api/v1"
	"github.com/kapok-dev/kapok/examples/network/provider"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments/finalizers,verbs=update

// A DeploymentReconciler creates a Network for each Deployment, with addresses that no other
// Network has. The Network is deleted with its Deployment.
type DeploymentReconciler struct {
	ctrl.Client
	// Pool is the range of addresses for all Networks, Bits the prefix length of each.
	Pool netip.Prefix
	Bits int
}

// SetupWithManager adds the controller to a manager.
func (r *DeploymentReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&appsv1.Deployment{}).
		Owns(&v1.Network{}).
		// One at a time: concurrent reconciles would choose the same addresses.
		WithOptions(ctrl.ControllerOptions{MaxConcurrentReconciles: 1, CacheSyncTimeout: -1}).
		Complete(r)
}

// Reconcile creates the Network if it does not exist.
func (r *DeploymentReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	deployment := &appsv1.Deployment{}
	if err := r.Get(ctx, req.NamespacedName, deployment); err != nil {
		return ctrl.Result{}, ctrl.IgnoreNotFound(err)
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
		if ctrl.ObjectKeyFromObject(&n) == req.NamespacedName {
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

// freePrefix returns the first range of addresses in a pool that does not overlap those in use.
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
