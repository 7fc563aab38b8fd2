package devicetainteviction

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	acmetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	acresourcev1 "k8s.io/client-go/applyconfigurations/resource/v1"
)

// statusPeriod is the shortest time between two updates of the status of a rule.
const statusPeriod = 10 * time.Second

// counts are the numbers of objects that a rule affects.
type counts struct{ pods, namespaces, published, allocated int }

// reconcileRule keeps the condition of a rule.
func (r *reconciler) reconcileRule(ctx context.Context, req request) (controller.Result, error) {
	var of resourcev1.DeviceTaintRule
	if err := r.client.Get(ctx, req.NamespacedName, &of, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if of.UID != req.uid {
		return controller.Result{}, nil
	}
	var was metav1.Condition
	if i := slices.IndexFunc(of.Status.Conditions, func(c metav1.Condition) bool { return c.Type == resourcev1.DeviceTaintConditionEvictionInProgress }); i >= 0 {
		was = of.Status.Conditions[i]
		if wait := time.Until(was.LastTransitionTime.Add(statusPeriod)); was.ObservedGeneration == of.Generation && wait > 0 {
			return controller.Result{RequeueAfter: wait}, nil
		}
	}
	n, err := r.count(ctx, &of)
	if err != nil {
		return controller.Result{}, err
	}
	r.mu.Lock()
	evicted := r.evicted[of.UID]
	r.mu.Unlock()
	next := condition(&of, n, evicted)
	next.LastTransitionTime = was.LastTransitionTime
	if next == was {
		return controller.Result{}, nil
	}
	c := acmetav1.Condition().WithType(next.Type).WithStatus(next.Status).WithReason(next.Reason).WithMessage(next.Message).
		WithObservedGeneration(next.ObservedGeneration).WithLastTransitionTime(metav1.Now())
	config := acresourcev1.DeviceTaintRule(of.Name).WithUID(of.UID).WithStatus(acresourcev1.DeviceTaintRuleStatus().WithConditions(c))
	return controller.Result{}, client.IgnoreNotFound(r.client.Status().Apply(ctx, config, client.FieldOwner(name), client.ForceOwnership))
}

// count counts the objects that a rule affects, or would affect if its effect is None.
func (r *reconciler) count(ctx context.Context, of *resourcev1.DeviceTaintRule) (n counts, err error) {
	var t *taints
	switch of.Spec.Taint.Effect {
	case resourcev1.DeviceTaintEffectNone:
		t, err = r.taints(ctx, of)
	case resourcev1.DeviceTaintEffectNoExecute:
		t, err = r.taints(ctx, nil)
	default:
		return n, nil
	}
	if err != nil {
		return n, err
	}
	var claims resourcev1.ResourceClaimList
	if err := r.client.List(ctx, &claims, client.MatchingFields{allocated: "true"}, client.UnsafeDisableDeepCopy); err != nil {
		return n, err
	}
	seen, namespaces := map[client.ObjectKey]bool{}, map[string]bool{}
	for i := range claims.Items {
		c := &claims.Items[i]
		for _, d := range c.Status.Allocation.Devices.Results {
			if matches(of, d.Driver, d.Pool, d.Device) {
				n.allocated++
			}
		}
		for _, by := range c.Status.ReservedFor {
			key := client.ObjectKey{Namespace: c.Namespace, Name: by.Name}
			if by.APIGroup != "" || by.Resource != "pods" || seen[key] {
				continue
			}
			seen[key] = true
			pending, err := r.isPending(ctx, t, key, rule{of.Name, of.UID})
			if err != nil {
				return n, err
			}
			if pending {
				n.pods++
				namespaces[c.Namespace] = true
			}
		}
	}
	n.namespaces = len(namespaces)
	if of.Spec.Taint.Effect == resourcev1.DeviceTaintEffectNone {
		n.published, err = r.published(ctx, of)
	}
	return n, err
}

// isPending reports whether a pod must go because of a rule.
func (r *reconciler) isPending(ctx context.Context, t *taints, key client.ObjectKey, because rule) (bool, error) {
	var p corev1.Pod
	if err := r.client.Get(ctx, key, &p, client.UnsafeDisableDeepCopy); err != nil || p.DeletionTimestamp != nil {
		return false, client.IgnoreNotFound(err)
	}
	e, err := t.ofPod(ctx, &p)
	return slices.Contains(e.rules, because), err
}

// published returns the number of devices in ResourceSlices that a rule selects.
func (r *reconciler) published(ctx context.Context, of *resourcev1.DeviceTaintRule) (n int, err error) {
	var list resourcev1.ResourceSliceList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return 0, err
	}
	pools := map[string][]resourcev1.ResourceSlice{}
	for _, s := range list.Items {
		pools[poolOf(&s)] = append(pools[poolOf(&s)], s)
	}
	for _, all := range pools {
		for _, s := range current(all) {
			for _, d := range s.Spec.Devices {
				if matches(of, s.Spec.Driver, s.Spec.Pool.Name, d.Name) {
					n++
				}
			}
		}
	}
	return n, nil
}

// condition returns the condition of a rule, without its time.
func condition(of *resourcev1.DeviceTaintRule, n counts, evicted int) metav1.Condition {
	c := metav1.Condition{Type: resourcev1.DeviceTaintConditionEvictionInProgress, Status: metav1.ConditionFalse, ObservedGeneration: of.Generation}
	var message []string
	say := func(format string, args ...any) { message = append(message, fmt.Sprintf(format, args...)) }
	switch of.Spec.Taint.Effect {
	case resourcev1.DeviceTaintEffectNoExecute:
		switch {
		case n.pods > 0:
			c.Reason, c.Status = "PodsPendingEviction", metav1.ConditionTrue
			say("%s evicted in %s.", number(n.pods, "1 pod needs to be", "%d pods need to be"), inNamespaces(n.namespaces))
		case evicted > 0:
			c.Reason = "Completed"
		default:
			c.Reason = "NotStarted"
		}
	case resourcev1.DeviceTaintEffectNone:
		c.Reason = "NoEffect"
		say("%s selected.", number(n.published, "1 published device", "%d published devices"))
		say("%s selected.", number(n.allocated, "1 allocated device", "%d allocated devices"))
		say("%s would be evicted in %s if the effect was NoExecute.", number(n.pods, "1 pod", "%d pods"), inNamespaces(n.namespaces))
		say("This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.")
	default:
		c.Reason = "OtherEffect"
		say("Eviction only happens for the NoExecute effect.")
	}
	if evicted > 0 {
		say("%s evicted since starting the controller.", number(evicted, "1 pod", "%d pods"))
	}
	c.Message = strings.Join(message, " ")
	return c
}

func number(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(several, n)
}

func inNamespaces(n int) string { return number(n, "1 namespace", "%d different namespaces") }
