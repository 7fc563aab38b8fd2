package place

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Extended resources that a class of devices provides (KEP-5004): a node that does not list the
// resource in its status has it if it has devices of the class. The pod then gets a claim of its
// own, the extended claim, which the scheduler creates when it binds the pod.

// isDevices reports whether a class of devices may provide a resource.
func isDevices(name corev1.ResourceName) bool {
	return isExtended(name) || strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix)
}

// provider returns the class of devices that provides a resource, nil if there is none. Of several
// classes, the newest one does, and of those the first by name.
func (d *devices) provider(name corev1.ResourceName) (found *resourcev1.DeviceClass) {
	if len(d.classes) == 0 || !isDevices(name) {
		return nil
	}
	if class, is := strings.CutPrefix(string(name), resourcev1.ResourceDeviceClassPrefix); is {
		return d.classes[class]
	}
	for _, class := range d.classes {
		if of := class.Spec.ExtendedResourceName; of == nil || *of != string(name) {
			continue
		}
		if found != nil {
			older := class.CreationTimestamp.Compare(found.CreationTimestamp.Time)
			if older < 0 || older == 0 && class.Name >= found.Name {
				continue
			}
		}
		found = class
	}
	return found
}

// provided reports whether a class of devices provides a resource that a pod requests.
func (d *devices) provided(p *corev1.Pod) bool {
	if len(d.classes) == 0 {
		return false
	}
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			for name, amount := range containers[i].Resources.Requests {
				if !amount.IsZero() && d.provider(name) != nil {
					return true
				}
			}
		}
	}
	return false
}

// NeedsDevices reports whether a pod has claims of devices, or resources that classes of devices
// provide.
func (c *Cluster) NeedsDevices(p *corev1.Pod) bool {
	return len(p.Spec.ResourceClaims) > 0 || c.devices.provided(p)
}

// IsExtendedClaim reports whether a claim is the extended claim of a pod.
func IsExtendedClaim(claim *resourcev1.ResourceClaim, of types.UID) bool {
	owner := metav1.GetControllerOfNoCopy(claim)
	return claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" && owner != nil && owner.UID == of
}

// leftover returns the extended claim of a pod that an earlier attempt has left, nil if there is
// none.
func (d *devices) leftover(p *corev1.Pod) *resourcev1.ResourceClaim {
	for _, claim := range d.claims {
		if claim.Namespace == p.Namespace && IsExtendedClaim(claim, p.UID) {
			return claim
		}
	}
	return nil
}

// extended are the resources of a pod of which classes of devices provide at least one.
type extended struct {
	leftover *resourcev1.ResourceClaim
	amounts  map[corev1.ResourceName]int64
	classes  map[corev1.ResourceName]string
	names    []corev1.ResourceName // of classes, sorted
}

// extendedOf returns the extended resources of a pod, nil if no class of devices provides one.
func (d *devices) extendedOf(p *corev1.Pod) *extended {
	if !d.provided(p) {
		return nil
	}
	e := &extended{leftover: d.leftover(p), amounts: map[corev1.ResourceName]int64{}, classes: map[corev1.ResourceName]string{}}
	for name, amount := range resourcesOf(requestsOf(p, false)).Others {
		if amount == 0 || !isDevices(name) {
			continue
		}
		e.amounts[name] = amount
		if class := d.provider(name); class != nil {
			e.classes[name] = class.Name
		}
	}
	e.names = slices.Sorted(maps.Keys(e.classes))
	return e
}

// onNode returns the resources that devices of a node provide, or why the node cannot have the pod.
func (e *extended) onNode(n *Node) (names []corev1.ResourceName, reason string) {
	if e.leftover != nil && e.leftover.Spec.Devices.Requests != nil {
		return nil, "cannot schedule extended resource claim"
	}
	for name := range e.amounts {
		if _, lists := n.Allocatable.Others[name]; !lists && e.classes[name] == "" {
			return nil, "cannot fit resource"
		}
	}
	for _, name := range e.names {
		if n.Allocatable.Others[name] == 0 {
			names = append(names, name)
		}
	}
	return names, ""
}

// claim returns the extended claim of a pod for resources, and which containers use which requests.
func (e *extended) claim(p *corev1.Pod, names []corev1.ResourceName) (*resourcev1.ResourceClaim, []corev1.ContainerExtendedResourceRequest) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, GenerateName: p.Name + "-extended-resources-", UID: "extended/" + p.UID,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}},
		Annotations:     map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
	}}
	var uses []corev1.ContainerExtendedResourceRequest
	for _, name := range names {
		requests, used := e.requests(p, name)
		claim.Spec.Devices.Requests, uses = append(claim.Spec.Devices.Requests, requests...), append(uses, used...)
	}
	slices.SortFunc(claim.Spec.Devices.Requests, func(a, b resourcev1.DeviceRequest) int { return strings.Compare(a.Name, b.Name) })
	return claim, uses
}

// requests returns the requests for a resource: one of each container that runs with others, and
// one of all init containers, which run one after another and may use the devices of later
// containers.
func (e *extended) requests(p *corev1.Pod, name corev1.ResourceName) (all []resourcev1.DeviceRequest, uses []corev1.ContainerExtendedResourceRequest) {
	containers := slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
	short := func(i int) bool {
		policy := containers[i].RestartPolicy
		return i < len(p.Spec.InitContainers) && (policy == nil || *policy != corev1.ContainerRestartPolicyAlways)
	}
	long := make([]*resourcev1.DeviceRequest, len(containers))
	for i := range containers {
		if !short(i) {
			request, used := e.request(i, &containers[i], name, nil)
			long[i], uses = request, append(uses, used...)
		}
	}
	var most *resourcev1.DeviceRequest // of init containers
	var ofInit []corev1.ContainerExtendedResourceRequest
	own := map[string]bool{} // names of their requests
	for i := range containers {
		if !short(i) {
			continue
		}
		request, used := e.request(i, &containers[i], name, long[i:])
		ofInit = append(ofInit, used...)
		if request == nil {
			continue
		}
		own[request.Name] = true
		if most == nil || most.Exactly.Count < request.Exactly.Count {
			most = request
		}
	}
	for i := range ofInit {
		if own[ofInit[i].RequestName] {
			ofInit[i].RequestName = most.Name
		}
	}
	for _, request := range append(long, most) {
		if request != nil {
			all = append(all, *request)
		}
	}
	return all, append(uses, ofInit...)
}

// request returns what a container requests of a resource besides the devices of others, nil if
// these are enough, and the requests that it uses.
func (e *extended) request(i int, c *corev1.Container, name corev1.ResourceName, others []*resourcev1.DeviceRequest) (*resourcev1.DeviceRequest, []corev1.ContainerExtendedResourceRequest) {
	amount := c.Resources.Requests[name]
	count, whole := amount.AsInt64()
	if !whole || count == 0 {
		return nil, nil
	}
	var uses []corev1.ContainerExtendedResourceRequest
	use := func(request string) {
		uses = append(uses, corev1.ContainerExtendedResourceRequest{ContainerName: c.Name, ResourceName: string(name), RequestName: request})
	}
	for _, other := range others {
		if other == nil {
			continue
		}
		use(other.Name)
		if count -= other.Exactly.Count; count <= 0 {
			return nil, uses
		}
	}
	at := slices.Index(slices.Sorted(maps.Keys(c.Resources.Requests)), name)
	request := &resourcev1.DeviceRequest{Name: fmt.Sprintf("container-%d-request-%d", i, at), Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: e.classes[name], AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
	}}
	use(request.Name)
	return request, uses
}

// counter returns a function that counts the devices of a class that a node can use, and those of
// them that are allocated. If the class has an expression that fails for one of them, it counts
// none.
func (d *devices) counter(class *resourcev1.DeviceClass) func(*Node) (has, used int64) {
	return func(n *Node) (has, used int64) {
		for _, s := range d.list() {
			for i := range s.Spec.Devices {
				device := &s.Spec.Devices[i]
				matches, err := d.reaches(n.Object, s, device)
				if err == nil && matches {
					matches, err = d.matches(class, s, device)
				}
				if err != nil {
					return 0, 0
				}
				if !matches {
					continue
				}
				has++
				if structured.IsDeviceAllocated(structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, device.Name), &d.allocated) {
					used++
				}
			}
		}
		return has, used
	}
}

// reaches reports whether a node can use a device.
func (d *devices) reaches(node *corev1.Node, s *resourcev1.ResourceSlice, device *resourcev1.Device) (bool, error) {
	name, all, selector := s.Spec.NodeName, s.Spec.AllNodes, s.Spec.NodeSelector
	each := s.Spec.PerDeviceNodeSelection != nil && *s.Spec.PerDeviceNodeSelection
	if each {
		name, all, selector = device.NodeName, device.AllNodes, device.NodeSelector
	}
	switch {
	case all != nil && *all, name != nil && *name == node.Name:
		return true, nil
	case selector != nil:
		return structured.NodeMatches(allocatorFeatures, node, "", false, selector)
	}
	return !each && (name == nil || *name == ""), nil
}

// matches reports whether a device is of a class.
func (d *devices) matches(class *resourcev1.DeviceClass, s *resourcev1.ResourceSlice, device *resourcev1.Device) (bool, error) {
	for _, selector := range class.Spec.Selectors {
		if selector.CEL == nil {
			continue
		}
		compiled := d.compiled.GetOrCompile(selector.CEL.Expression)
		if compiled.Error != nil {
			return false, compiled.Error
		}
		matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device{Driver: s.Spec.Driver, Attributes: device.Attributes, Capacity: device.Capacity})
		if err != nil || !matches {
			return false, err
		}
	}
	return true, nil
}
