package devicetainteviction

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

func poolKey(driver, pool string) string { return driver + "/" + pool }

func poolOf(s *resourcev1.ResourceSlice) string { return poolKey(s.Spec.Driver, s.Spec.Pool.Name) }

// poolsOf returns the pools of the devices of a claim.
func poolsOf(c *resourcev1.ResourceClaim) (pools []string) {
	if c.Status.Allocation == nil {
		return nil
	}
	for _, d := range c.Status.Allocation.Devices.Results {
		if key := poolKey(d.Driver, d.Pool); !slices.Contains(pools, key) {
			pools = append(pools, key)
		}
	}
	return pools
}

// current returns the slices of the newest generation of a pool.
func current(all []resourcev1.ResourceSlice) (newest []*resourcev1.ResourceSlice) {
	generation := int64(math.MinInt64)
	for i := range all {
		generation = max(generation, all[i].Spec.Pool.Generation)
	}
	for i := range all {
		if all[i].Spec.Pool.Generation == generation {
			newest = append(newest, &all[i])
		}
	}
	return newest
}

// matches reports whether a rule selects a device.
func matches(t *resourcev1.DeviceTaintRule, driver, pool, device string) bool {
	s := t.Spec.DeviceSelector
	is := func(want *string, name string) bool { return want == nil || *want == name }
	return s != nil && is(s.Driver, driver) && is(s.Pool, pool) && is(s.Device, device)
}

// An eviction is the time at which a pod is deleted, and the rules that contribute to it.
type eviction struct {
	at    time.Time
	rules []rule
}

// add adds another reason.
func (e *eviction) add(at time.Time, because ...rule) {
	if e.at.IsZero() || at.Before(e.at) {
		e.at = at
	}
	for _, b := range because {
		if !slices.Contains(e.rules, b) {
			e.rules = append(e.rules, b)
		}
	}
}

// taints finds the reasons for evictions in the cache.
type taints struct {
	client client.Reader
	rules  []resourcev1.DeviceTaintRule // that evict
}

// taints returns the taints that evict now. With simulate, this rule is the only one, and evicts.
func (r *reconciler) taints(ctx context.Context, simulate *resourcev1.DeviceTaintRule) (*taints, error) {
	if simulate != nil {
		simulate = simulate.DeepCopy()
		simulate.Spec.Taint.Effect = resourcev1.DeviceTaintEffectNoExecute
		return &taints{r.client, []resourcev1.DeviceTaintRule{*simulate}}, nil
	}
	var list resourcev1.DeviceTaintRuleList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	t := &taints{client: r.client}
	for _, rule := range list.Items {
		if rule.Spec.Taint.Effect == resourcev1.DeviceTaintEffectNoExecute {
			t.rules = append(t.rules, rule)
		}
	}
	return t, nil
}

// ofPod returns when a pod must go; never, if the time is zero. Pods without a node stay.
func (t *taints) ofPod(ctx context.Context, p *corev1.Pod) (e eviction, err error) {
	if p.Spec.NodeName == "" {
		return e, nil
	}
	for name, mustOwn := range resourceclaim.PodClaims(p) {
		var claim resourcev1.ResourceClaim
		err := t.client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: name}, &claim, client.UnsafeDisableDeepCopy)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return e, err
		}
		if claim.Status.Allocation == nil || mustOwn && resourceclaim.IsForPod(p, &claim, false) != nil ||
			!resourceclaim.IsReservedForPod(p, &claim, false) {
			continue
		}
		for _, d := range claim.Status.Allocation.Devices.Results {
			if err := t.ofDevice(ctx, &d, &e); err != nil {
				return e, err
			}
		}
	}
	return e, nil
}

// ofDevice adds the reasons of an allocated device.
func (t *taints) ofDevice(ctx context.Context, d *resourcev1.DeviceRequestAllocationResult, e *eviction) error {
	var list resourcev1.ResourceSliceList
	if err := t.client.List(ctx, &list, client.MatchingFields{byPool: poolKey(d.Driver, d.Pool)}, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for _, slice := range current(list.Items) {
		i := slices.IndexFunc(slice.Spec.Devices, func(o resourcev1.Device) bool { return o.Name == d.Device })
		if i < 0 {
			continue
		}
		for _, taint := range slice.Spec.Devices[i].Taints {
			if at, ok := leaves(d, taint); ok {
				e.add(at)
			}
		}
		break
	}
	for i := range t.rules {
		of := &t.rules[i]
		taint := resourcev1.DeviceTaint{Key: of.Spec.Taint.Key, Value: of.Spec.Taint.Value, Effect: of.Spec.Taint.Effect, TimeAdded: of.Spec.Taint.TimeAdded}
		if !matches(of, d.Driver, d.Pool, d.Device) {
			continue
		}
		if at, ok := leaves(d, taint); ok {
			e.add(at, rule{of.Name, of.UID})
		}
	}
	return nil
}

// leaves returns the time at which the pods that use a device are deleted because of a taint: after
// the shortest time of the tolerations, unless one of them tolerates the taint without a limit.
func leaves(d *resourcev1.DeviceRequestAllocationResult, taint resourcev1.DeviceTaint) (at time.Time, ok bool) {
	if taint.Effect != resourcev1.DeviceTaintEffectNoExecute || taint.TimeAdded == nil {
		return at, false
	}
	wait := int64(-1)
	for _, t := range d.Tolerations {
		if t.Effect != resourcev1.DeviceTaintEffectNoExecute || !resourceclaim.ToleratesTaint(t, taint) {
			continue
		}
		if t.TolerationSeconds == nil {
			return at, false
		}
		if s := max(*t.TolerationSeconds, 0); wait < 0 || s < wait {
			wait = s
		}
	}
	return taint.TimeAdded.Add(time.Duration(max(wait, 0)) * time.Second), true
}
