package ctrl_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/ctrl"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// An Isolator keeps a NetworkPolicy that denies all ingress in every Namespace with the label
// isolated=true.
type Isolator struct{ ctrl.Client }

// Reconcile creates or repairs the policy of one Namespace, or deletes it.
func (r *Isolator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	namespace := &corev1.Namespace{}
	if err := r.Get(ctx, req.NamespacedName, namespace); err != nil {
		return ctrl.Result{}, ctrl.IgnoreNotFound(err)
	}
	if !namespace.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // the server deletes the policy with its namespace
	}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: ctrl.ObjectMeta{Namespace: namespace.Name, Name: "isolated"}}
	if namespace.Labels["isolated"] != "true" {
		return ctrl.Result{}, ctrl.IgnoreNotFound(r.Delete(ctx, policy))
	}
	_, err := ctrl.CreateOrUpdate(ctx, r.Client, policy, func() error {
		policy.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		policy.Spec.Ingress = nil
		return ctrl.SetControllerReference(namespace, policy, r.Scheme())
	})
	return ctrl.Result{}, err
}

// SetupWithManager adds a controller that reconciles a Namespace when it or its policy changes.
func (r *Isolator) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.Namespace{}).Owns(&networkingv1.NetworkPolicy{}).Complete(r)
}

// newManager returns a manager with the controller.
func newManager(server *kapok.Server) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(server.Config(), ctrl.Options{})
	if err != nil {
		return nil, err
	}
	return mgr, (&Isolator{mgr.GetClient()}).SetupWithManager(mgr)
}

// The smallest useful controller, with a server in the same process. A program that runs elsewhere
// calls NewManager with GetConfigOrDie, and Start with SetupSignalHandler.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	server, err := kapok.Start(ctx, kapok.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	mgr, err := newManager(server)
	if err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- mgr.Start(ctx) }()

	c, err := client.NewWithWatch(server.Config(), client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	policies, err := c.Watch(ctx, &networkingv1.NetworkPolicyList{})
	if err != nil {
		log.Fatal(err)
	}
	shop := &corev1.Namespace{ObjectMeta: ctrl.ObjectMeta{Name: "shop", Labels: map[string]string{"isolated": "true"}}}
	if err := c.Create(ctx, shop); err != nil {
		log.Fatal(err)
	}
	event := <-policies.ResultChan()
	policy := event.Object.(*networkingv1.NetworkPolicy)
	fmt.Println(event.Type, policy.Namespace+"/"+policy.Name, policy.Spec.PolicyTypes)
	policies.Stop()
	stop()
	fmt.Println("stopped:", <-stopped)

	// Output:
	// ADDED shop/isolated [Ingress]
	// stopped: <nil>
}
