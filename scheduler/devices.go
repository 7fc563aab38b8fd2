package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/scheduler/place"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// ofDevices is the plugin whose refusal a change of claims and devices may end.
const ofDevices = "DynamicResources"

const (
	maxConflicts = 5               // of a write of a claim
	bindingPoll  = 5 * time.Second // between reads of a claim whose devices are not ready
)

// claimed is what happens to the claims of devices of a pod while it is bound.
type claimed struct {
	plugin  place.DynamicResources
	choices []place.ClaimChoice
	written []*resourcev1.ResourceClaim // that the pod has been added to
	// extended is the claim that was created for extended resources; nil if there is none.
	extended *resourcev1.ResourceClaim
}

// claim decides about the claims of devices of a pod that gets a node. It returns nil if the pod
// has none.
func (s *scheduler) claim(p *corev1.Pod, node string, profile *place.Profile) (*claimed, error) {
	plugin, has := profile.Dynamic()
	if !has || !s.cluster.NeedsDevices(p) {
		return nil, nil
	}
	choices, err := s.cluster.Allocate(p, node, plugin)
	return &claimed{plugin: plugin, choices: choices}, err
}

// reserve writes the allocations of the claims of a pod, and that the pod uses them. Then it waits
// until drivers have made the devices ready.
func (s *scheduler) reserve(ctx context.Context, p *corev1.Pod, node string, c *claimed) error {
	for _, choice := range c.choices {
		if choice.Uses != nil {
			claim, err := s.createClaim(ctx, choice.Claim)
			if err != nil {
				return err
			}
			c.extended, choice.Claim = claim, claim
		}
		claim, err := s.writeClaim(ctx, p, choice)
		if err != nil {
			return err
		}
		c.written = append(c.written, claim)
		s.inbox.put(func() { s.putClaim(claim) })
		if choice.Uses != nil {
			if err := s.reportClaim(ctx, p, claim, choice.Uses); err != nil {
				return err
			}
		}
	}
	return s.awaitDevices(ctx, p, node, c)
}

// writeClaim adds a pod to the users of a claim, with an allocation if it gets one. After an error,
// it reads the claim: the write may have succeeded although the response was lost.
func (s *scheduler) writeClaim(ctx context.Context, p *corev1.Pod, choice place.ClaimChoice) (*resourcev1.ResourceClaim, error) {
	claim := choice.Claim.DeepCopy()
	for conflicts := 0; ; conflicts++ {
		err := s.addUser(ctx, p, claim, choice.Allocation)
		if err == nil {
			return claim, nil
		}
		claim = s.liveClaim(ctx, choice.Claim)
		switch {
		case claim == nil:
			return nil, err
		case resourceclaim.IsReservedForPod(p, claim, false):
			return claim, nil
		case !apierrors.IsConflict(err) || conflicts == maxConflicts:
			s.inbox.put(func() { s.putClaim(claim) })
			return nil, err
		}
	}
}

// liveClaim asks the server, until it answers, for a claim. It returns nil if the claim does not
// exist.
func (s *scheduler) liveClaim(ctx context.Context, claim *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	for pause := firstRead; ; pause = min(2*pause, lastPause) {
		var is resourcev1.ResourceClaim
		err := s.live.Get(ctx, client.ObjectKeyFromObject(claim), &is)
		if err == nil && is.UID == claim.UID {
			return &is
		}
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *scheduler) addUser(ctx context.Context, p *corev1.Pod, claim *resourcev1.ResourceClaim, allocation *resourcev1.AllocationResult) error {
	name := client.ObjectKeyFromObject(claim)
	if claim.DeletionTimestamp != nil {
		return fmt.Errorf("claim %s got deleted in the meantime", name)
	}
	switch {
	case allocation == nil && claim.Status.Allocation == nil:
		return fmt.Errorf("claim %s got deallocated elsewhere in the meantime", name)
	case allocation != nil && claim.Status.Allocation != nil:
		return fmt.Errorf("claim %s got allocated elsewhere in the meantime", name)
	case allocation != nil:
		if !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
			claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
			if err := s.client.Update(ctx, claim); err != nil {
				return fmt.Errorf("add finalizer to claim %s: %w", name, err)
			}
		}
		claim.Status.Allocation = allocation.DeepCopy()
	}
	if claim.Status.Allocation.AllocationTimestamp == nil {
		claim.Status.Allocation.AllocationTimestamp = new(metav1.Now())
	}
	if !resourceclaim.IsReservedForPod(p, claim, false) {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	}
	if err := s.client.Status().Update(ctx, claim); err != nil {
		if allocation != nil {
			return fmt.Errorf("add allocation and reservation to claim %s: %w", name, err)
		}
		return fmt.Errorf("add reservation to claim %s: %w", name, err)
	}
	return nil
}

// awaitDevices waits until the devices of the claims of a pod are ready.
func (s *scheduler) awaitDevices(ctx context.Context, p *corev1.Pod, node string, c *claimed) error {
	if !slices.ContainsFunc(c.written, needsDriver) {
		return nil
	}
	s.events[p.Spec.SchedulerName].Eventf(p, nil, corev1.EventTypeNormal, "BindingConditionsPending", "Scheduling", "waiting for binding conditions for device on node %s", node)
	<-s.bindings // others may write while this pod waits
	defer func() { s.bindings <- struct{}{} }()
	for {
		waiting := false
		for _, written := range c.written {
			var claim resourcev1.ResourceClaim
			if err := s.client.Get(ctx, client.ObjectKeyFromObject(written), &claim); err != nil {
				return err
			}
			if reason := c.plugin.Unready(&claim, time.Now()); reason != "" {
				return fmt.Errorf("%s", reason)
			}
			if ready, _ := place.Ready(&claim); !ready {
				waiting = true
			}
		}
		if !waiting {
			return nil
		}
		select {
		case <-time.After(bindingPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// needsDriver reports whether a driver has to make devices of a claim ready before pods use them.
func needsDriver(claim *resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool { return len(r.BindingConditions) > 0 })
}

// unreserve removes a pod that has not got its node from the users of its claims, and deletes its
// extended claim. An error leaves it: the controller of claims removes users that are gone, and the
// next attempt to schedule the pod deletes the claim.
func (s *scheduler) unreserve(ctx context.Context, p *corev1.Pod, c *claimed) {
	if c.extended != nil {
		_ = s.deleteClaim(ctx, c.extended)
	}
	for _, claim := range c.written {
		if c.extended != nil && claim.UID == c.extended.UID {
			continue
		}
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"reservedFor":[{"$patch":"delete","uid":%q}]}}`, claim.UID, p.UID)
		next := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}
		_ = s.client.Status().Patch(ctx, next, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	}
}

// deallocate takes the devices of a claim away, so that a pod that fits no node may get others.
func (s *scheduler) deallocate(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	next := claim.DeepCopy()
	next.Status.ReservedFor, next.Status.Allocation, next.Status.Devices = nil, nil, nil
	return s.client.Status().Update(ctx, next)
}

// putClaim notes a claim. If devices were freed, all pods that wait for devices are retried, and
// otherwise those that use the claim.
func (s *scheduler) putClaim(claim *resourcev1.ResourceClaim) {
	before := s.cluster.ResourceClaim(claim.Namespace, claim.Name)
	s.cluster.SetResourceClaim(claim)
	if s.cluster.ResourceClaim(claim.Namespace, claim.Name) != claim {
		return // it is older than what is known
	}
	switch {
	case before != nil && before.Status.Allocation != nil && claim.Status.Allocation == nil:
		s.queue.happened(time.Now(), ofDevices)
	case before == nil || !equality.Semantic.DeepEqual(before.Status, claim.Status):
		s.queue.happenedTo(time.Now(), ofDevices, func(p *corev1.Pod) bool { return uses(p, claim) })
	}
}

// uses reports whether a pod uses a claim.
func uses(p *corev1.Pod, claim *resourcev1.ResourceClaim) bool {
	if p.Namespace != claim.Namespace {
		return false
	}
	for name := range resourceclaim.PodClaims(p) {
		if name == claim.Name {
			return true
		}
	}
	return false
}

func (s *scheduler) setResourceClaim(_, o client.Object) { s.putClaim(o.(*resourcev1.ResourceClaim)) }

func (s *scheduler) removeResourceClaim(o client.Object) {
	s.cluster.RemoveResourceClaim(o.GetNamespace(), o.GetName())
	if claim := o.(*resourcev1.ResourceClaim); claim.Status.Allocation != nil {
		s.queue.happened(time.Now(), ofDevices)
	} else {
		s.queue.happenedTo(time.Now(), ofDevices, func(p *corev1.Pod) bool { return place.IsExtendedClaim(claim, p.UID) })
	}
}

func (s *scheduler) setDeviceClass(_, o client.Object) {
	s.cluster.SetDeviceClass(o.(*resourcev1.DeviceClass))
	s.queue.happened(time.Now(), ofDevices, "NodeResourcesFit") // it may provide an extended resource
}

func (s *scheduler) removeDeviceClass(o client.Object) { s.cluster.RemoveDeviceClass(o.GetName()) }

func (s *scheduler) setResourceSlice(_, o client.Object) {
	s.cluster.SetResourceSlice(o.(*resourcev1.ResourceSlice))
	s.queue.happened(time.Now(), ofDevices)
}

func (s *scheduler) removeResourceSlice(o client.Object) {
	s.cluster.RemoveResourceSlice(o.GetName())
	s.queue.happened(time.Now(), ofDevices) // a pool may be complete now
}

func (s *scheduler) setDeviceTaintRule(_, o client.Object) {
	s.cluster.SetDeviceTaintRule(o.(*resourcev1.DeviceTaintRule))
	s.queue.happened(time.Now(), ofDevices)
}

func (s *scheduler) removeDeviceTaintRule(o client.Object) {
	s.cluster.RemoveDeviceTaintRule(o.GetName())
	s.queue.happened(time.Now(), ofDevices)
}
