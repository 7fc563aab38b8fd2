package oracle

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/scheduler/place"
	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// TestPlaceClaims is TestPlace for pods with claims of devices: DynamicResources must refuse the
// same nodes for the same reasons, and score the others alike. Devices that Kapok allocates count
// for kube-scheduler, and must be those of the node. Each reason and a score are seen.
func TestPlaceClaims(t *testing.T) {
	seed := seeds.Of(t)
	metrics.Register()
	seen := map[string]int{}
	for i := range max(*placeClusters/4, 1) {
		g := &clusterGenerator{rand.New(rand.NewPCG(seed, uint64(i)))}
		w := g.world()
		g.devices(w)
		ours := place.NewCluster(1)
		w.tell(ours)
		w.tellDevices(ours)
		for n := range 6 {
			p := g.claimant(w, ours, fmt.Sprint("new", n))
			want, got := newRealPlacer(t, w).judge(t, p), judge(ours, p)
			if want != got {
				t.Fatalf("cluster %d: %s%s\nkube-scheduler:\n%s\nkapok:\n%s", i, describe(w, p), describeDevices(w), want, got)
			}
			d := ours.Place(p, defaultProfile)
			for _, no := range d.Refusals() {
				if no.Plugin == "DynamicResources" {
					seen[claimReason(no.Reasons[0])]++
				}
			}
			for _, scores := range d.Scores() {
				if scores["DynamicResources"] > 0 {
					seen["score"]++
				}
			}
			if d.Node == "" {
				g.changeDevices(w, ours)
				continue
			}
			seen["placed"]++
			plugin, _ := defaultProfile.Dynamic()
			choices, err := ours.Allocate(p, d.Node, plugin)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range choices {
				if c.Allocation == nil {
					continue
				}
				checkAllocation(t, w, d.Node, c)
				claim := c.Claim.DeepCopy()
				claim.Status.Allocation = c.Allocation
				claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
				w.replaceDevices(ours, claim)
			}
			if g.sometimes(2) {
				g.changeDevices(w, ours)
			}
		}
	}
	for _, want := range []string{
		"placed", "score", "cannot allocate all claims", "resourceclaim not available on the node", "device class * does not exist", "could not find ResourceClaim *",
		"* is being deleted", "* was not created for Pod *", "*ResourceClaim not created yet", "running * filter plugin: *",
	} {
		if seen[want] == 0 {
			t.Errorf("%q has not happened: %v", want, seen)
		}
	}
}

// claimReason returns a reason without names.
func claimReason(reason string) string {
	for _, part := range []struct{ has, is string }{
		{"does not exist", "device class * does not exist"}, {"could not find", "could not find ResourceClaim *"}, {"is being deleted", "* is being deleted"},
		{"was not created for Pod", "* was not created for Pod *"}, {"not created yet", "*ResourceClaim not created yet"}, {"filter plugin", "running * filter plugin: *"},
	} {
		if strings.Contains(reason, part.has) {
			return part.is
		}
	}
	return reason
}

// checkAllocation checks that the devices of an allocation are on the node, and not allocated to
// another claim.
func checkAllocation(t *testing.T, w *world, node string, c place.ClaimChoice) {
	t.Helper()
	if len(c.Allocation.Devices.Results) == 0 {
		t.Errorf("claim %s: no devices", c.Claim.Name)
	}
	for _, r := range c.Allocation.Devices.Results {
		at := slices.IndexFunc(w.devices, func(o runtime.Object) bool {
			s, ok := o.(*resourcev1.ResourceSlice)
			return ok && s.Spec.Driver == r.Driver && s.Spec.Pool.Name == r.Pool && slices.ContainsFunc(s.Spec.Devices, func(d resourcev1.Device) bool { return d.Name == r.Device })
		})
		if at < 0 {
			t.Fatalf("claim %s: %s/%s/%s does not exist", c.Claim.Name, r.Driver, r.Pool, r.Device)
		}
		if s := w.devices[at].(*resourcev1.ResourceSlice); s.Spec.NodeName != nil && *s.Spec.NodeName != node {
			t.Errorf("claim %s: %s/%s/%s is not on node %s", c.Claim.Name, r.Driver, r.Pool, r.Device, node)
		}
		if r.AdminAccess != nil || r.ShareID != nil {
			continue
		}
		for _, o := range w.devices {
			other, ok := o.(*resourcev1.ResourceClaim)
			if !ok || other.Status.Allocation == nil || other.UID == c.Claim.UID {
				continue
			}
			for _, has := range other.Status.Allocation.Devices.Results {
				if has.AdminAccess == nil && has.ShareID == nil && has.Driver == r.Driver && has.Pool == r.Pool && has.Device == r.Device {
					t.Errorf("claims %s and %s: both have %s/%s/%s", other.Name, c.Claim.Name, r.Driver, r.Pool, r.Device)
				}
			}
		}
	}
}

// deviceManager returns kube-scheduler's state of devices, with those of a world.
func (w *world) deviceManager(t *testing.T, f informers.SharedInformerFactory) *dynamicresources.DefaultDRAManager {
	t.Helper()
	ctx, kinds := t.Context(), f.Resource().V1()
	claims := assumecache.NewAssumeCache(klog.Background(), kinds.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	handled := claims.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	tracked, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules: len(w.devices) > 0, EnableConsumableCapacity: true, SliceInformer: kinds.ResourceSlices(), TaintInformer: kinds.DeviceTaintRules(),
	})
	if err != nil {
		t.Fatal(err)
	}
	manager := dynamicresources.NewDRAManager(ctx, claims, tracked, f)
	for _, class := range w.deviceClasses() {
		manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache).OnAdd(class, true)
	}
	if len(w.devices) > 0 {
		kinds.DeviceClasses().Informer()
		ctx, cancel := context.WithCancel(ctx)
		t.Cleanup(func() { cancel(); tracked.Stop(); f.Shutdown() })
		f.StartWithContext(ctx)
		f.WaitForCacheSync(ctx.Done())
		<-tracked.HasSyncedChecker().Done()
		<-handled.HasSyncedChecker().Done()
	}
	return manager
}

// deviceClasses returns the classes in the order in which each provides its extended resource
// instead of those before. In another order, kube-scheduler forgets the implicit resource of some.
func (w *world) deviceClasses() (all []*resourcev1.DeviceClass) {
	for _, o := range w.devices {
		if class, is := o.(*resourcev1.DeviceClass); is {
			all = append(all, class)
		}
	}
	slices.SortFunc(all, func(a, b *resourcev1.DeviceClass) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(b.Name, a.Name))
	})
	return all
}

const (
	gpuDriver    = "gpu.example.com"
	netDriver    = "net.example.com"
	deviceClaims = 6
)

// devices adds classes, devices, claims and taints to a world.
func (g *clusterGenerator) devices(w *world) {
	class := func(name string, selectors ...string) {
		c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, s := range selectors {
			c.Spec.Selectors = append(c.Spec.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: s}})
		}
		w.devices = append(w.devices, c)
	}
	class("gpu", `device.driver == "gpu.example.com"`)
	class("net", `device.driver == "net.example.com"`)
	class("any")
	class("large", `device.driver == "gpu.example.com"`, `device.capacity["gpu.example.com"].memory.compareTo(quantity("20Gi")) >= 0`)
	class("broken", `device.attributes["gpu.example.com"].missing == "x"`)
	for _, n := range w.nodes {
		if !g.sometimes(4) {
			w.devices = append(w.devices, g.gpus(n.Name))
		}
	}
	for i := range 2 {
		w.devices = append(w.devices, g.networks(fmt.Sprint("net", i)))
	}
	for i := range g.r.IntN(3) {
		w.devices = append(w.devices, g.taintRule(fmt.Sprint("rule", i)))
	}
	for _, namespace := range []string{"default", "other"} {
		for i := range deviceClaims {
			if !g.sometimes(12) {
				w.devices = append(w.devices, g.deviceClaim(w, namespace, fmt.Sprint("d", i)))
			}
		}
	}
}

// gpus are the devices of a node.
func (g *clusterGenerator) gpus(node string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: gpuDriver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
	if g.sometimes(10) {
		s.Spec.Pool.ResourceSliceCount = 2 // the other one is missing
	}
	for i := range 1 + g.r.IntN(4) {
		d := resourcev1.Device{Name: fmt.Sprint("gpu", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"model": {StringValue: new(g.one("a", "b"))}, "numa": {IntValue: new(g.r.Int64N(2))}, "ready": {BoolValue: new(g.sometimes(2))},
		}}
		d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse(g.one("10Gi", "40Gi"))}}
		switch g.r.IntN(8) {
		case 0:
			d.AllowMultipleAllocations = new(true)
			memory := d.Capacity["memory"]
			memory.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: new(resource.MustParse("10Gi")), ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: new(resource.MustParse("1Gi"))}}
			d.Capacity["memory"] = memory
		case 1:
			d.Taints = append(d.Taints, g.deviceTaint())
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

// networks are devices that several nodes reach.
func (g *clusterGenerator) networks(name string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: netDriver, Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}}
	if g.sometimes(3) {
		s.Spec.AllNodes = new(true)
	} else {
		s.Spec.NodeSelector = zoneSelector(g.one("z1", "z2"))
	}
	for i := range 1 + g.r.IntN(2) {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("if", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"numa": {IntValue: new(g.r.Int64N(2))},
		}})
	}
	return s
}

func zoneSelector(zone string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
	}}}}
}

func (g *clusterGenerator) deviceTaint() resourcev1.DeviceTaint {
	return resourcev1.DeviceTaint{Key: g.one("k", "l"), Value: g.one("", "v"), Effect: resourcev1.DeviceTaintEffect(g.one("NoSchedule", "NoExecute", "None"))}
}

func (g *clusterGenerator) taintRule(name string) *resourcev1.DeviceTaintRule {
	r := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceTaintRuleSpec{Taint: g.deviceTaint()}}
	switch g.r.IntN(4) {
	case 0:
		r.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Driver: new(netDriver)}
	case 1:
		r.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Pool: new(g.one("n0", "n1", "net0"))}
	case 2:
		r.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Driver: new(gpuDriver), Pool: new("n0"), Device: new("gpu0")}
	}
	return r
}

func (g *clusterGenerator) deviceSelectors() (all []resourcev1.DeviceSelector) {
	if g.sometimes(3) {
		all = append(all, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: g.one(
			`device.attributes["gpu.example.com"].?model.orValue("") == "a"`, `device.driver.startsWith("gpu")`, `device.allowMultipleAllocations == true`,
		)}})
	}
	return all
}

func (g *clusterGenerator) deviceTolerations() (all []resourcev1.DeviceToleration) {
	if g.sometimes(3) {
		all = append(all, resourcev1.DeviceToleration{Key: g.one("", "k", "l"), Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffect(g.one("", "NoSchedule", "NoExecute"))})
	}
	return all
}

func (g *clusterGenerator) className() string {
	if g.sometimes(25) {
		return g.one("none", "broken")
	}
	return g.one("gpu", "gpu", "gpu", "net", "any", "large")
}

func (g *clusterGenerator) capacity() *resourcev1.CapacityRequirements {
	if !g.sometimes(5) {
		return nil
	}
	return &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(g.one("5Gi", "30Gi"))}}
}

func (g *clusterGenerator) deviceRequest(name string) resourcev1.DeviceRequest {
	if g.sometimes(4) {
		r := resourcev1.DeviceRequest{Name: name}
		for i := range 1 + g.r.IntN(3) {
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
				Name: fmt.Sprint("s", i), DeviceClassName: g.className(), Selectors: g.deviceSelectors(), AllocationMode: resourcev1.DeviceAllocationModeExactCount,
				Count: 1 + g.r.Int64N(2), Tolerations: g.deviceTolerations(), Capacity: g.capacity(),
			})
		}
		return r
	}
	r := &resourcev1.ExactDeviceRequest{
		DeviceClassName: g.className(), Selectors: g.deviceSelectors(), AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
		Tolerations: g.deviceTolerations(), Capacity: g.capacity(),
	}
	switch g.r.IntN(8) {
	case 0:
		r.Count = 2
	case 1:
		r.AllocationMode, r.Count = resourcev1.DeviceAllocationModeAll, 0
	case 2:
		r.AdminAccess = new(true)
	}
	return resourcev1.DeviceRequest{Name: name, Exactly: r}
}

// deviceClaim is a claim, which may have devices already.
func (g *clusterGenerator) deviceClaim(w *world, namespace, name string) *resourcev1.ResourceClaim {
	w.n++
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(fmt.Sprint(namespace, "-", name, "-", w.n)), ResourceVersion: fmt.Sprint(w.n)}}
	for i := range 1 + g.r.IntN(2) {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, g.deviceRequest(fmt.Sprint("r", i)))
	}
	if g.sometimes(4) {
		c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, resourcev1.DeviceConstraint{MatchAttribute: new(resourcev1.FullyQualifiedName(g.one("gpu.example.com/numa", "gpu.example.com/model")))})
	}
	if g.sometimes(8) {
		c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, resourcev1.DeviceConstraint{DistinctAttribute: new(resourcev1.FullyQualifiedName("gpu.example.com/numa"))})
	}
	if g.sometimes(30) {
		c.DeletionTimestamp = new(metav1.Now())
	}
	if g.sometimes(3) {
		g.allocate(w, c)
	}
	return c
}

// allocate gives a claim a device that no other claim has, if there is one.
func (g *clusterGenerator) allocate(w *world, c *resourcev1.ResourceClaim) {
	var slices []*resourcev1.ResourceSlice
	taken := map[string]bool{}
	for _, o := range w.devices {
		switch o := o.(type) {
		case *resourcev1.ResourceSlice:
			slices = append(slices, o)
		case *resourcev1.ResourceClaim:
			if o.Status.Allocation != nil {
				for _, r := range o.Status.Allocation.Devices.Results {
					taken[r.Pool+"/"+r.Device] = true
				}
			}
		}
	}
	s := slices[g.r.IntN(len(slices))]
	d := s.Spec.Devices[g.r.IntN(len(s.Spec.Devices))]
	if taken[s.Spec.Pool.Name+"/"+d.Name] || d.AllowMultipleAllocations != nil {
		return
	}
	a := &resourcev1.AllocationResult{}
	result := resourcev1.DeviceRequestAllocationResult{Request: c.Spec.Devices.Requests[0].Name, Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name}
	if len(c.Spec.Devices.Requests[0].FirstAvailable) > 0 {
		result.Request += "/s0"
	}
	if s.Spec.NodeName != nil {
		a.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{*s.Spec.NodeName}},
		}}}}
	} else {
		a.NodeSelector = s.Spec.NodeSelector
	}
	if g.sometimes(4) {
		result.BindingConditions, result.BindingFailureConditions = []string{"attached"}, []string{"failed"}
		a.AllocationTimestamp = new(metav1.NewTime(time.Now().Add(-time.Hour)))
		if g.sometimes(2) {
			a.AllocationTimestamp = new(metav1.Now())
		}
		if g.sometimes(2) {
			c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: result.Driver, Pool: result.Pool, Device: result.Device, Conditions: []metav1.Condition{
				{Type: g.one("attached", "failed", "other"), Status: metav1.ConditionStatus(g.one("True", "False")), Reason: "r", Message: "m"},
			}}}
		}
	}
	a.Devices.Results = append(a.Devices.Results, result)
	c.Status.Allocation = a
	if g.sometimes(2) {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "user", UID: "user"})
	}
}

// claimant is a pod with claims. Those that are created for it become part of the world.
func (g *clusterGenerator) claimant(w *world, c *place.Cluster, name string) *corev1.Pod {
	p := g.pod(name, "")
	if !g.sometimes(4) {
		p.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
	}
	used := map[string]bool{}
	for i := range 1 + g.r.IntN(2) {
		claim := corev1.PodResourceClaim{Name: fmt.Sprint("c", i)}
		switch g.r.IntN(4) {
		case 0:
			claim.ResourceClaimTemplateName = new("template")
			if g.sometimes(6) {
				break // not created yet
			}
			status := corev1.PodResourceClaimStatus{Name: claim.Name}
			if !g.sometimes(8) {
				made := g.deviceClaim(w, p.Namespace, p.Name+"-"+claim.Name)
				if !g.sometimes(8) {
					made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}}
				}
				w.replaceDevices(c, made)
				status.ResourceClaimName = &made.Name
			}
			p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, status)
		default:
			claim.ResourceClaimName = new(fmt.Sprint("d", g.r.IntN(deviceClaims)))
			if used[*claim.ResourceClaimName] {
				continue
			}
			used[*claim.ResourceClaimName] = true
		}
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, claim)
	}
	return p
}

// changeDevices changes one object of a world.
func (g *clusterGenerator) changeDevices(w *world, c *place.Cluster) {
	switch g.r.IntN(4) {
	case 0:
		w.replaceDevices(c, g.deviceClaim(w, g.one("default", "other"), fmt.Sprint("d", g.r.IntN(deviceClaims))))
	case 1:
		w.replaceDevices(c, g.taintRule("rule0"))
	case 2:
		n := w.nodes[g.r.IntN(len(w.nodes))].Name
		s := g.gpus(n)
		s.Spec.Pool.Generation = 2
		w.replaceDevices(c, s)
	case 3:
		var claims []*resourcev1.ResourceClaim
		for _, o := range w.devices {
			if claim, ok := o.(*resourcev1.ResourceClaim); ok && claim.Status.Allocation != nil {
				claims = append(claims, claim)
			}
		}
		if len(claims) == 0 {
			return
		}
		claim := claims[g.r.IntN(len(claims))].DeepCopy()
		w.n++
		claim.Status, claim.ResourceVersion = resourcev1.ResourceClaimStatus{}, fmt.Sprint(w.n)
		w.replaceDevices(c, claim)
	}
}

// replaceDevices adds an object, or replaces the one with its name.
func (w *world) replaceDevices(c *place.Cluster, o runtime.Object) {
	w.devices = slices.DeleteFunc(w.devices, func(have runtime.Object) bool {
		return fmt.Sprintf("%T", have) == fmt.Sprintf("%T", o) && cache.MetaObjectToName(have.(metav1.Object)) == cache.MetaObjectToName(o.(metav1.Object))
	})
	w.devices = append(w.devices, o)
	tellDevices(c, o)
}

func (w *world) tellDevices(c *place.Cluster) {
	for _, o := range w.devices {
		tellDevices(c, o)
	}
}

func tellDevices(c *place.Cluster, o runtime.Object) {
	switch o := o.(type) {
	case *resourcev1.ResourceClaim:
		c.SetResourceClaim(o)
	case *resourcev1.DeviceClass:
		c.SetDeviceClass(o)
	case *resourcev1.ResourceSlice:
		c.SetResourceSlice(o)
	case *resourcev1.DeviceTaintRule:
		c.SetDeviceTaintRule(o)
	}
}

func describeDevices(w *world) (text string) {
	all := slices.Clone(w.devices)
	slices.SortFunc(all, func(a, b runtime.Object) int {
		return cmp.Or(strings.Compare(fmt.Sprintf("%T", a), fmt.Sprintf("%T", b)), strings.Compare(fmt.Sprint(cache.MetaObjectToName(a.(metav1.Object))), fmt.Sprint(cache.MetaObjectToName(b.(metav1.Object)))))
	})
	for _, o := range all {
		text += fmt.Sprintf("%T %+v\n", o, o)
	}
	return text
}
