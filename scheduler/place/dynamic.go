package place

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
)

// DynamicResources refuses nodes that cannot have the devices of a pod's claims: those that are
// allocated, and those that will be when the pod has a node. It prefers nodes where requests get
// the first of their alternatives. The allocator is the one of kube-scheduler.
type DynamicResources struct {
	// FilterTimeout ends the search for devices for one node; 0 is no limit.
	FilterTimeout time.Duration
	// BindingTimeout is how long a driver may take to make allocated devices ready.
	BindingTimeout time.Duration
}

// Name implements Plugin.
func (DynamicResources) Name() string { return "DynamicResources" }

// allocatorFeatures are the features that Kubernetes 1.37 enables by default.
var allocatorFeatures = structured.Features{
	AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, DeviceBindingAndStatus: true,
	ConsumableCapacity: true, FractionalCapacityRange: true,
}

// Compile implements Plugin. A change of claims, classes and devices makes another class: see
// claimsKey.
func (p DynamicResources) Compile(c *Cluster, pod *Pod) (Rule, *Refusal) {
	if !c.NeedsDevices(pod.Object) {
		return Rule{}, nil
	}
	n, no := p.needsOf(c, pod.Object)
	if no != nil || len(n.claims) == 0 && n.extended == nil {
		return Rule{}, no
	}
	rule := Rule{Filter: func(on *Node) *Refusal {
		_, no := n.on(on)
		return no
	}}
	if n.allocator != nil && slices.ContainsFunc(n.claims, hasAlternatives) {
		scores := map[string]int64{}
		rule.Filter = func(on *Node) *Refusal {
			results, no := n.on(on)
			if no == nil {
				scores[on.Name] = n.score(results.open)
			}
			return no
		}
		rule.Score = func(on *Node) int64 { return scores[on.Name] }
		rule.Normalize = func(scores []int64) { normalize(scores, false) }
	}
	return rule, nil
}

// needs are the claims of a pod.
type needs struct {
	plugin    DynamicResources
	pod       *corev1.Pod
	extended  *extended // nil without extended resources
	claims    []*resourcev1.ResourceClaim
	nodes     []*nodeaffinity.NodeSelector // of the allocations of claims; nil is all
	late      []bool                       // the driver has not made the devices of a claim ready
	open      []*resourcev1.ResourceClaim  // claims without an allocation
	allocator structured.Allocator         // nil if none is open, and there are no extended resources
}

// taken is what a pod takes on a node.
type taken struct {
	open     []resourcev1.AllocationResult // of the open claims
	extended *ClaimChoice                  // nil if the node has the extended resources without devices
}

// needsOf returns the claims of a pod, or why no node can have them.
func (p DynamicResources) needsOf(c *Cluster, pod *corev1.Pod) (*needs, *Refusal) {
	no := func(reason string) (*needs, *Refusal) {
		return nil, &Refusal{Plugin: p.Name(), Reasons: []string{reason}, Final: true}
	}
	failed := func(err error) (*needs, *Refusal) {
		return nil, p.failure(fmt.Errorf("running PreFilter plugin %q: %w", p.Name(), err))
	}
	claims, err := c.deviceClaims(pod)
	if err != nil {
		return no(err.Error())
	}
	n := &needs{plugin: p, pod: pod, extended: c.devices.extendedOf(pod), claims: claims, nodes: make([]*nodeaffinity.NodeSelector, len(claims)), late: make([]bool, len(claims))}
	for i, claim := range claims {
		if a := claim.Status.Allocation; a != nil {
			if !resourceclaim.CanBeReserved(claim) && !resourceclaim.IsReservedForPod(pod, claim, false) {
				return no("resourceclaim in use")
			}
			if a.NodeSelector != nil {
				if n.nodes[i], err = nodeaffinity.NewNodeSelector(a.NodeSelector); err != nil {
					return failed(err)
				}
			}
			n.late[i] = p.Unready(claim, time.Now()) != ""
			continue
		}
		if c.devices.pending[claim.UID] != nil {
			return no(fmt.Sprintf("resource claim %s is in the process of being allocated", klog.KObj(claim)))
		}
		n.open = append(n.open, claim)
		for r := range claim.Spec.Devices.Requests {
			classes, reason := classesOf(claim, &claim.Spec.Devices.Requests[r])
			if reason != "" {
				return no(reason)
			}
			for _, of := range classes {
				if of.class == "" {
					return failed(fmt.Errorf("request %s: unsupported request type", of.request))
				}
				if c.devices.classes[of.class] == nil {
					return no(fmt.Sprintf("request %s: device class %s does not exist", of.request, of.class))
				}
			}
		}
	}
	if len(n.open) > 0 || n.extended != nil {
		n.allocator, err = structured.NewAllocator(context.Background(), allocatorFeatures, c.devices.allocated, lister(c.devices.classes), c.devices.list(), c.devices.compiled)
		if err != nil {
			return failed(err)
		}
	}
	return n, nil
}

func (p DynamicResources) failure(err error) *Refusal {
	return &Refusal{Plugin: p.Name(), Reasons: []string{err.Error()}, Final: true, Err: err}
}

// A classOf is the class of devices that a request names.
type classOf struct{ request, class string }

// classesOf returns the classes of a request, or why it cannot be handled.
func classesOf(claim *resourcev1.ResourceClaim, r *resourcev1.DeviceRequest) (all []classOf, reason string) {
	switch {
	case r.Exactly != nil:
		return []classOf{{r.Name, r.Exactly.DeviceClassName}}, ""
	case len(r.FirstAvailable) == 0:
		return nil, fmt.Sprintf("resource claim %s, request %s: unknown request type", klog.KObj(claim), r.Name)
	}
	for i := range r.FirstAvailable {
		all = append(all, classOf{r.Name + "/" + r.FirstAvailable[i].Name, r.FirstAvailable[i].DeviceClassName})
	}
	return all, ""
}

func hasAlternatives(claim *resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(claim.Spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool { return len(r.FirstAvailable) > 0 })
}

// unavailable returns the claims whose allocation a node cannot use.
func (n *needs) unavailable(on *corev1.Node) (all []*resourcev1.ResourceClaim) {
	for i, claim := range n.claims {
		switch a := claim.Status.Allocation; {
		case n.nodes[i] != nil && !n.nodes[i].Match(on), n.late[i]:
			all = append(all, claim)
		case a != nil && skipsNode(a) && !declares(on, draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate):
			all = append(all, claim)
		}
	}
	return all
}

// skipsNode reports whether the kubelet omits steps for a device, which not every kubelet can.
func skipsNode(a *resourcev1.AllocationResult) bool {
	return slices.ContainsFunc(a.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool { return len(r.SkipNodeOperations) > 0 })
}

// on returns what a pod takes on a node, or why the node cannot have it.
func (n *needs) on(on *Node) (t taken, no *Refusal) {
	node, open := on.Object, n.open
	refuse := func(reason string) *Refusal {
		return &Refusal{Plugin: n.plugin.Name(), Reasons: []string{reason}, Final: true}
	}
	if n.extended != nil {
		names, reason := n.extended.onNode(on)
		if reason != "" {
			return t, refuse(reason)
		}
		if len(names) > 0 {
			claim, uses := n.extended.claim(n.pod, names)
			t.extended, open = &ClaimChoice{Claim: claim, Uses: uses}, append(slices.Clone(open), claim)
		}
	}
	if len(open) > 0 {
		ctx := klog.NewContext(context.Background(), klog.Logger{})
		if timeout := n.plugin.FilterTimeout; timeout > 0 {
			limited, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			ctx = limited
		}
		results, err := n.allocator.Allocate(ctx, node, open)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			err = fmt.Errorf("node %s: timed out trying to allocate devices", node.Name)
			return t, n.plugin.failure(fmt.Errorf("running %q filter plugin: %w", n.plugin.Name(), err))
		case errors.Is(err, structured.ErrFailedAllocationOnNode):
			return t, refuse(err.Error())
		case err != nil: // a claim or a class is wrong
			return t, n.plugin.failure(fmt.Errorf("running %q filter plugin: %w", n.plugin.Name(), err))
		case len(results) != len(open):
			return t, refuse("cannot allocate all claims")
		}
		if t.open = results[:len(n.open)]; t.extended != nil {
			t.extended.Allocation = &results[len(n.open)]
		}
	}
	if len(n.unavailable(node)) > 0 {
		return t, refuse("resourceclaim not available on the node")
	}
	return t, nil
}

// score returns how good the alternatives are that requests have got.
func (n *needs) score(results []resourcev1.AllocationResult) (score int64) {
	open := 0
	for _, claim := range n.claims {
		a := claim.Status.Allocation
		if a == nil {
			a = &results[open]
			open++
		}
		for _, r := range claim.Spec.Devices.Requests {
			for i := range r.FirstAvailable {
				ref := resourceclaim.CreateSubRequestRef(r.Name, r.FirstAvailable[i].Name)
				if slices.ContainsFunc(a.Devices.Results, func(got resourcev1.DeviceRequestAllocationResult) bool { return got.Request == ref }) {
					score += int64(resourcev1.FirstAvailableDeviceRequestMaxSize - i)
				}
			}
		}
	}
	return score
}

// deviceClaims returns the claims of a pod, each once, or why one of them cannot be used. Claims
// from templates are those in the status of the pod.
func (c *Cluster) deviceClaims(p *corev1.Pod) (all []*resourcev1.ResourceClaim, err error) {
	for i := range p.Spec.ResourceClaims {
		name, owned, err := resourceclaim.Name(p, &p.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name == nil {
			continue
		}
		claim := c.ResourceClaim(p.Namespace, *name)
		if claim == nil {
			return nil, fmt.Errorf("could not find %s %q", "ResourceClaim", p.Namespace+"/"+*name)
		}
		if claim.DeletionTimestamp != nil {
			return nil, fmt.Errorf("resourceclaim %q is being deleted", claim.Name)
		}
		if owned {
			if err := resourceclaim.IsForPod(p, claim, false); err != nil {
				return nil, err
			}
		}
		if !slices.Contains(all, claim) {
			all = append(all, claim)
		}
	}
	return all, nil
}

// LacksClaims reports whether a pod has to wait for its claims of devices before it is placed.
func (c *Cluster) LacksClaims(p *corev1.Pod) bool {
	_, err := c.deviceClaims(p)
	return err != nil
}

// claimsKey returns the part of the key of a class about claims of devices. Each pod with claims is
// a class of its own, and classes do not follow changes of claims, so such a change makes a new
// class.
func (c *Cluster) claimsKey(p *corev1.Pod) string {
	if !c.NeedsDevices(p) {
		return ""
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%d %s", c.devices.changes, p.UID)
	claims, err := c.deviceClaims(p)
	if err != nil {
		return key.String() + err.Error()
	}
	for _, claim := range claims {
		fmt.Fprintf(&key, " %s", claim.UID)
		if a := claim.Status.Allocation; a != nil && slices.ContainsFunc(a.Devices.Results, hasConditions) {
			fmt.Fprintf(&key, " at %d", time.Now().Unix()) // the time for the driver may end
		}
	}
	return key.String()
}

func hasConditions(r resourcev1.DeviceRequestAllocationResult) bool {
	return len(r.BindingConditions) > 0
}

// Ready reports whether the driver has made the devices of a claim ready, and returns an error if
// it has failed to.
func Ready(claim *resourcev1.ResourceClaim) (bool, error) {
	a := claim.Status.Allocation
	if a == nil {
		return false, nil
	}
	for _, r := range a.Devices.Results {
		if !hasConditions(r) {
			continue
		}
		i := slices.IndexFunc(claim.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
			return d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device
		})
		if i < 0 {
			return false, nil
		}
		conditions := claim.Status.Devices[i].Conditions
		for _, kind := range r.BindingFailureConditions {
			if is := apimeta.FindStatusCondition(conditions, kind); is != nil && is.Status == "True" {
				return false, fmt.Errorf("device binding failed: claim=%s, reason=%s, message=%q", claim.Name, is.Reason, is.Message)
			}
		}
		for _, kind := range r.BindingConditions {
			if !apimeta.IsStatusConditionTrue(conditions, kind) {
				return false, nil
			}
		}
	}
	return true, nil
}

// Unready returns why a pod should not wait longer for the devices of a claim, "" if it should, or
// need not.
func (p DynamicResources) Unready(claim *resourcev1.ResourceClaim, now time.Time) string {
	ready, err := Ready(claim)
	if err != nil {
		return err.Error()
	}
	a := claim.Status.Allocation
	if ready || a == nil || a.AllocationTimestamp == nil || !slices.ContainsFunc(a.Devices.Results, hasConditions) {
		return ""
	}
	if a.AllocationTimestamp.Add(p.BindingTimeout).Before(now) {
		return "device binding timeout: claim=" + claim.Name
	}
	return ""
}

// A ClaimChoice is the decision about a claim of a pod that has got a node: the devices that it is
// going to have. Allocation is nil if it has them.
type ClaimChoice struct {
	Claim      *resourcev1.ResourceClaim
	Allocation *resourcev1.AllocationResult
	// Uses is set for an extended claim, which is to be created: the requests of it that containers
	// use.
	Uses []corev1.ContainerExtendedResourceRequest
}

// Allocate returns what is to be written about the claims of a pod that gets a node, and notes that
// the devices are taken: until the claims have their allocations, or Release. Claims that need
// nothing are omitted.
func (c *Cluster) Allocate(p *corev1.Pod, node string, by DynamicResources) ([]ClaimChoice, error) {
	n, no := by.needsOf(c, p)
	on := c.nodes[node]
	if no == nil && (on == nil || on.Object == nil) {
		return nil, fmt.Errorf("node %s does not exist", node)
	}
	var t taken
	if no == nil {
		t, no = n.on(on)
	}
	if no != nil {
		return nil, errors.New(strings.Join(no.Reasons, ", "))
	}
	var choices []ClaimChoice
	open := 0
	for _, claim := range n.claims {
		switch {
		case claim.Status.Allocation == nil:
			choices = append(choices, ClaimChoice{Claim: claim, Allocation: &t.open[open]})
			c.devices.await(claim, &t.open[open])
			open++
		case !resourceclaim.IsReservedForPod(p, claim, false):
			choices = append(choices, ClaimChoice{Claim: claim})
		}
	}
	if t.extended != nil {
		choices = append(choices, *t.extended)
		c.devices.awaitExtended(p.UID, t.extended.Allocation)
	}
	return choices, nil
}

// Release ends what Allocate has noted, for claims that have got no allocation.
func (c *Cluster) Release(choices []ClaimChoice) {
	for _, choice := range choices {
		switch {
		case choice.Uses != nil:
			c.devices.awaitExtended(metav1.GetControllerOfNoCopy(choice.Claim).UID, nil)
		case choice.Allocation != nil:
			c.devices.await(choice.Claim, nil)
		}
	}
}

// Stranded returns a claim of a pod without a feasible node whose devices some node cannot reach,
// and which no other pod uses; nil if there is none. Without its allocation, the pod may fit.
func (d Decision) Stranded() *resourcev1.ResourceClaim {
	if len(d.pod.Spec.ResourceClaims) == 0 || d.whole() != nil {
		return nil
	}
	by, has := d.class.profile.Dynamic()
	if !has {
		return nil
	}
	n, no := by.needsOf(d.cluster, d.pod)
	if no != nil {
		return nil
	}
	refusals := d.Refusals()
	for _, on := range d.cluster.slots {
		if on == nil || on.Object == nil || refusals[on.Name] == nil || refusals[on.Name].Plugin != by.Name() {
			continue
		}
		for _, claim := range n.unavailable(on.Object) {
			users := claim.Status.ReservedFor
			if len(users) == 0 || len(users) == 1 && users[0].UID == d.pod.UID {
				return claim
			}
		}
	}
	return nil
}

// Leftover returns the extended claim that an earlier attempt has left to a pod without a feasible
// node, nil if there is none. Without the claim, the pod may fit.
func (d Decision) Leftover() *resourcev1.ResourceClaim {
	if _, has := d.class.profile.Dynamic(); !has || d.whole() != nil || !d.cluster.devices.provided(d.pod) {
		return nil
	}
	return d.cluster.devices.leftover(d.pod)
}

// Dynamic returns the plugin DynamicResources of the profile; false if the claims of pods do not
// count.
func (p *Profile) Dynamic() (DynamicResources, bool) {
	for _, w := range p.Plugins {
		if d, ok := w.Plugin.(DynamicResources); ok && !w.Without.Filter {
			return d, true
		}
	}
	return DynamicResources{}, false
}
