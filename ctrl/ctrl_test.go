package ctrl_test

import (
	"testing"

	"github.com/kapok-dev/kapok/ctrl"
	"github.com/kapok-dev/kapok/kapoktest"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// The controller of the example follows the label, and repairs and deletes the policy.
func TestIsolator(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		mgr, err := newManager(env.Server())
		if err != nil {
			t.Fatal(err)
		}
		env.Go(mgr.Start)
		shop := &corev1.Namespace{ObjectMeta: ctrl.ObjectMeta{Name: "shop"}}
		policy := &networkingv1.NetworkPolicy{ObjectMeta: ctrl.ObjectMeta{Namespace: "shop", Name: "isolated"}}
		env.Create(shop)
		env.Settle()
		if env.Exists(policy) {
			t.Error("a namespace without the label has a policy")
		}
		env.Update(shop, func() { shop.Labels["isolated"] = "true" })
		env.Settle()
		if !env.Exists(policy) {
			t.Fatal("a namespace with the label has no policy")
		}
		env.Update(policy, func() { policy.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}} })
		env.Settle()
		if env.Get(policy); len(policy.Spec.Ingress) > 0 {
			t.Errorf("the policy is not repaired: %v", policy.Spec)
		}
		env.Delete(policy)
		env.Settle()
		if !env.Exists(policy) {
			t.Error("a deleted policy is not created again")
		}
		env.Update(shop, func() { delete(shop.Labels, "isolated") })
		env.Settle()
		if env.Exists(policy) {
			t.Error("the policy outlives the label")
		}
	})
}

// NewManager has a webhook server that runs only if a webhook is registered.
func TestNewManagerHasAWebhookServer(t *testing.T) {
	env := kapoktest.Start(t)
	mgr, err := ctrl.NewManager(env.Config(), ctrl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if mgr.GetWebhookServer() == nil {
		t.Error("there is no webhook server")
	}
}
