// Package servicecidr delays the deletion of ServiceCIDRs whose addresses are in use: it adds a
// finalizer and the condition Ready, which it sets to False while the range is terminating. A range
// is removed when every allocated address of it is also in another range, and at the earliest ten
// seconds after its deletion: until then, a server may still allocate from it.
//
// The package starts no goroutine.
package servicecidr

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

const (
	name      = "service-cidr-controller"
	finalizer = "networking.k8s.io/service-cidr-finalizer"
	// grace is the time after a deletion in which servers learn of it.
	grace = 10 * time.Second
	// allocator is the value of the label managed-by of addresses that a server has allocated.
	allocator = "ipallocator.k8s.io"
	workers   = 5

	byFamily = "kapok.dev/service-address-family"
)

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{client: m.GetClient(), events: m.GetEventRecorderFor(name)}
	err := m.GetFieldIndexer().IndexField(context.Background(), &networkingv1.IPAddress{}, byFamily, func(o client.Object) []string {
		if o.GetLabels()[networkingv1.LabelManagedBy] != allocator {
			return nil
		}
		return []string{o.GetLabels()[networkingv1.LabelIPAddressFamily]}
	})
	if err != nil && !errors.Is(err, cache.ErrIndexExists) {
		return err
	}
	return controller.NewControllerManagedBy(m).Named(name).
		Watches(&networkingv1.ServiceCIDR{}, handler.EnqueueRequestsFromMapFunc(r.overlapping)).
		Watches(&networkingv1.IPAddress{}, handler.EnqueueRequestsFromMapFunc(r.containing)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// reconciler is the Reconciler of ServiceCIDRs. It has no state of its own.
type reconciler struct {
	client client.Client
	events record.EventRecorder
}

// overlapping returns requests for a range, and for those with addresses in common that it may keep
// or free.
func (r *reconciler) overlapping(ctx context.Context, o client.Object) []controller.Request {
	requests := []controller.Request{handler.RequestFor(o)}
	ranges := prefixes(o.(*networkingv1.ServiceCIDR))
	for _, other := range r.all(ctx) {
		if other.Name != o.GetName() && other.DeletionTimestamp != nil && slices.ContainsFunc(prefixes(other), func(p netip.Prefix) bool {
			return slices.ContainsFunc(ranges, p.Overlaps)
		}) {
			requests = append(requests, handler.RequestFor(other))
		}
	}
	return requests
}

// containing returns requests for the ranges of an address that are being deleted. All others stay
// as they are.
func (r *reconciler) containing(ctx context.Context, o client.Object) (requests []controller.Request) {
	address, err := netip.ParseAddr(o.GetName())
	if err != nil || o.GetLabels()[networkingv1.LabelManagedBy] != allocator {
		return nil
	}
	for _, c := range r.all(ctx) {
		if c.DeletionTimestamp != nil && has(c, address) {
			requests = append(requests, handler.RequestFor(c))
		}
	}
	return requests
}

// all returns all ranges, which belong to the cache; none after it has ended. There are few.
func (r *reconciler) all(ctx context.Context) (ranges []*networkingv1.ServiceCIDR) {
	var list networkingv1.ServiceCIDRList
	if r.client.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	for i := range list.Items {
		ranges = append(ranges, &list.Items[i])
	}
	return ranges
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var c networkingv1.ServiceCIDR
	if err := r.client.Get(ctx, req.NamespacedName, &c, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if c.DeletionTimestamp != nil {
		return r.end(ctx, &c)
	}
	if !slices.Contains(c.Finalizers, finalizer) {
		if err := r.patch(ctx, &c, `{"metadata":{"finalizers":["`+finalizer+`"]}}`); err != nil {
			return controller.Result{}, err
		}
	}
	err := r.setReady(ctx, &c, metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready"})
	if err != nil {
		r.events.Event(&c, corev1.EventTypeWarning, "KubernetesServiceCIDRError", "The ServiceCIDR Status can not be set to Ready=True")
	}
	return controller.Result{}, err
}

// end lets a range that is being deleted go, if it can.
func (r *reconciler) end(ctx context.Context, c *networkingv1.ServiceCIDR) (controller.Result, error) {
	needed, err := r.needed(ctx, c)
	if err != nil {
		return controller.Result{}, err
	}
	if needed {
		return controller.Result{}, r.setReady(ctx, c, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
		})
	}
	if pause := time.Until(c.DeletionTimestamp.Add(grace)); pause > 0 {
		return controller.Result{RequeueAfter: pause}, nil
	}
	if !slices.Contains(c.Finalizers, finalizer) {
		return controller.Result{}, nil
	}
	return controller.Result{}, r.patch(ctx, c, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["`+finalizer+`"]}}`)
}

// needed reports whether a Service has an address that only this range contains.
func (r *reconciler) needed(ctx context.Context, c *networkingv1.ServiceCIDR) (bool, error) {
	all := r.all(ctx)
	others := slices.DeleteFunc(slices.Clone(all), func(o *networkingv1.ServiceCIDR) bool { return o.Name == c.Name })
	within := func(p netip.Prefix) bool {
		return slices.ContainsFunc(others, func(o *networkingv1.ServiceCIDR) bool {
			return slices.ContainsFunc(prefixes(o), func(q netip.Prefix) bool { return q.Bits() <= p.Bits() && q.Overlaps(p) })
		})
	}
	for _, p := range prefixes(c) {
		if within(p) {
			continue
		}
		family := corev1.IPv4Protocol
		if p.Addr().Is6() {
			family = corev1.IPv6Protocol
		}
		var list networkingv1.IPAddressList
		if err := r.client.List(ctx, &list, client.MatchingFields{byFamily: string(family)}, client.UnsafeDisableDeepCopy); err != nil {
			return false, err
		}
		for i := range list.Items {
			address, err := netip.ParseAddr(list.Items[i].Name)
			if err != nil || !contains(p, address) {
				continue
			}
			if !slices.ContainsFunc(others, func(o *networkingv1.ServiceCIDR) bool { return has(o, address) }) {
				return true, nil
			}
		}
	}
	return false, nil
}

// patch sends a strategic merge patch of a range, which may have gone.
func (r *reconciler) patch(ctx context.Context, c *networkingv1.ServiceCIDR, data string) error {
	o := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}
	return client.IgnoreNotFound(r.client.Patch(ctx, o, client.RawPatch(types.StrategicMergePatchType, []byte(data))))
}

// setReady sets the condition Ready, if it is not like that already.
func (r *reconciler) setReady(ctx context.Context, c *networkingv1.ServiceCIDR, ready metav1.Condition) error {
	ready.Type = networkingv1.ServiceCIDRConditionReady
	if is := apimeta.FindStatusCondition(c.Status.Conditions, ready.Type); is != nil && is.Status == ready.Status && is.Reason == ready.Reason && is.Message == ready.Message {
		return nil
	}
	ready.LastTransitionTime = metav1.Now()
	next := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name},
		Status:     networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{ready}},
	}
	err := r.client.Status().Apply(ctx, client.ApplyConfigurationFrom(next), client.FieldOwner(name), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("set the condition %s: %w", ready.Type, err)
	}
	return nil
}

func prefixes(c *networkingv1.ServiceCIDR) (all []netip.Prefix) {
	for _, text := range c.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}

func has(c *networkingv1.ServiceCIDR, address netip.Addr) bool {
	return slices.ContainsFunc(prefixes(c), func(p netip.Prefix) bool { return contains(p, address) })
}

// contains reports whether an address can be allocated from a range: not its first one, and in IPv4
// not its last one.
func contains(p netip.Prefix, address netip.Addr) bool {
	if !p.Contains(address) || address == p.Addr() {
		return false
	}
	if !address.Is4() {
		return true
	}
	hosts := ^uint32(0) >> p.Bits()
	return binary.BigEndian.Uint32(address.AsSlice())&hosts != hosts
}
